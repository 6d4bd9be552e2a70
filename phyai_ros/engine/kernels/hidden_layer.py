# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rows of a residual stream out of a hidden layer, W silu(V x + a) + b, of narrow vectors x, in two
launches on Hopper: as exact as float32, by a product of halves (``split_linear``). In front of them
may stand rows that are given as they are.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import regroup, split_linear
from phyai_ros.engine.kernels.cluster_product import ClusterProduct, Form
from phyai_ros.engine.kernels.fragments import ROWS, into_groups

_SHAPES = ((8, 1, 32), (4, 2, 32), (4, 1, 16), (2, 1, 16), (1, 1, 16))
"""Blocks of a cluster, warpgroups of a block, half the columns: the first that fits is taken."""
_DEEPEST = 512
"""Of a warpgroup's share of the depth, whose operands are in registers."""

Linear = tuple[torch.Tensor, torch.Tensor]
"""weight [out, in] and bias [out], float32."""


def reference(x: torch.Tensor, hidden: Linear, second: Linear, given: torch.Tensor) -> torch.Tensor:
    """The twin. x [n, K]; hidden: V, a; second: W, b; given [m, width] -> [m + n, width]."""
    return torch.cat([given, F.linear(F.silu(F.linear(x, *hidden)), *second)])


def form(weight: torch.Tensor) -> Form | None:
    """How the product with W [width, hidden] runs; None where no form fits it."""
    for blocks, groups, half in _SHAPES:
        made = Form(len(weight), 3 * weight.shape[1], blocks, groups, half, "residual")
        if made.fits() and made.depth <= _DEEPEST:
            return made
    return None


def fits(weight: torch.Tensor) -> bool:
    """Whether the kernels were written for W [width, hidden] of this dtype."""
    return weight.dtype == torch.float32 and form(weight) is not None


class HiddenLayer:
    """second: W [width, hidden] and b, of which it keeps a copy in halves of ``dtype``. rows: of
    the stream, the first ``given`` of them as they are. One call after another; their scratch is
    the same.

    dependent: launches start while the kernel in front ends. Raises ValueError where the kernels
    cannot serve these sizes (``fits``), CudaError or OSError where they cannot be compiled.
    """

    def __init__(
        self, second: Linear, dtype: torch.dtype, *, rows: int, given: int, dependent: bool
    ):
        weight, self._bias = second
        made = form(weight)
        if made is None:
            raise ValueError(f"no kernel for a second layer of {tuple(weight.shape)}")
        self._rows, self._given, self._dependent = rows, given, dependent
        packed = split_linear.packed(weight.detach(), dtype)
        self._product = ClusterProduct(packed, made, dependent=dependent)
        self._split = weight.new_empty(made.k // 16, 4, 32, 8, dtype=dtype)

    def before(self, given: torch.Tensor) -> torch.Tensor:
        """given [``given``, width] float32 -> what the stream is before the hidden layer's rows are
        added: these rows, and biases behind them. Groups."""
        biases = self._bias.expand(ROWS - self._given, -1)  # of all there may be: no more launches
        return into_groups(torch.cat([given, biases]))

    def __call__(
        self, x: torch.Tensor, hidden: Linear, before: torch.Tensor,
        scale: torch.Tensor | None = None,
    ) -> regroup.Into:  # fmt: skip
        """x [rows - given, K] float32, contiguous; hidden: V and a; scale [width], of the norm
        behind. -> the stream, its copy in 16 bits and its squares."""
        split_linear.fused_rows(
            x, *hidden, out=self._split, first=self._given, dependent=self._dependent
        )
        made = regroup.empty_into(self._product.form.n, self._split.dtype, before)
        stream, copy, squares = made
        self._product(
            self._split, rows=self._rows, x=stream, out=copy, old=before, scale=scale,
            squares=squares,
        )  # fmt: skip
        return made
