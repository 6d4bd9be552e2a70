# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What kernels share that tell where rows of a prefix stand: ``flow_places``, ``prefix_places``."""

from __future__ import annotations

from phyai_ros.engine.kernels._triton import jit, tl

ROWS = 16
"""A program's."""


# seen: 1 for each of rows i that exists, else 0 -> how many exist up to each row and with it, less
# one; and whether it does.
@jit
def stand(seen, i, row):
    up_to = tl.where(i[None, :] <= row[:, None], seen[None, :], 0)
    here = tl.where(i[None, :] == row[:, None], seen[None, :], 0)
    return tl.sum(up_to, 1) - 1, tl.sum(here, 1)


# Cosines and sines of rows' angles, each half of a row twice; at: of a row's first half.
@jit
def put_turns(cos_ptr, sin_ptr, at, angle, inside, half):
    cos, sin = tl.cos(angle), tl.sin(angle)
    tl.store(cos_ptr + at, cos, mask=inside)
    tl.store(cos_ptr + at + half, cos, mask=inside)
    tl.store(sin_ptr + at, sin, mask=inside)
    tl.store(sin_ptr + at + half, sin, mask=inside)
