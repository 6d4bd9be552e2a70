# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The next product's weights on their way into L2 while the pass in front of it works: a product of
the library begins only when that has ended, and of a few hundred rows it waits for its weights.

Each row of the weights is asked for from its beginning on, as far as L2 has room, so that all of a
product's tiles begin alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.skinny_linear import _prefetch

MOST = 4 * 2**20
"""Bytes asked for at once. GR00T's vision and prefix took 2.79 ms so, 2.84 without asking, and 2.88
with 12 MB, whose requests stand in the way of the pass itself; since then its image tower asks for
nothing and is faster for that."""
_LINE = 128


class Ahead(NamedTuple):
    """For kernels of ``programs``. lines: that are asked for, ``a_row`` of
    them in a row of ``stride`` numbers; constants: STEP numbers a line, SHARE lines a program, up
    to a power of two."""

    weight: torch.Tensor
    lines: int
    a_row: int
    stride: int
    constants: dict[str, int]

    @staticmethod
    def of(weight: torch.Tensor | None, programs: int, unused: torch.Tensor) -> Ahead:
        """weight: [n, k], rows contiguous, or None, then nothing is asked for."""
        step = 1 if weight is None else _LINE // weight.element_size()
        a_row = 0 if weight is None else min(weight.shape[1] // step, MOST // _LINE // len(weight))
        if weight is None or a_row == 0:
            return Ahead(unused, 1, 1, 1, {"STEP": 1, "SHARE": 0})
        lines = len(weight) * a_row
        share = power_of_two(-(-lines // programs))
        return Ahead(weight, lines, a_row, weight.stride(0), {"STEP": step, "SHARE": share})


@jit
def ask(program, weight_ptr, lines, a_row, stride, STEP: tl.constexpr, SHARE: tl.constexpr):
    """A program's share; those beyond the last ask for the first again."""
    line = (program * SHARE + tl.arange(0, SHARE)) % lines
    _prefetch(weight_ptr + (line // a_row).to(tl.int64) * stride + line % a_row * STEP)
