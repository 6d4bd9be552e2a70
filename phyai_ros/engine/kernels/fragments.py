# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""64 rows in the orders in which a warpgroup's registers hold them (``cuda/hopper.cuh``)."""

from __future__ import annotations

import torch

ROWS = 64
COPY = 2.0**-6
"""Of a residual stream, float32, norms read a copy in 16 bits, times this: far from overflow, and
its finest step 4e-6."""


def into_groups(x: torch.Tensor) -> torch.Tensor:
    """x [rows <= 64, width], width a multiple of 8 -> [width / 8, 4, 32, 4], as a product leaves
    its sums; rows that are missing are zeros."""
    return _split(x, 8).permute(3, 0, 2, 4, 1, 5).reshape(-1, 4, 32, 4)


def from_groups(x: torch.Tensor, rows: int) -> torch.Tensor:
    """[width / 8, 4, 32, 4] -> [rows, width], contiguous."""
    split = x.view(-1, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5)
    return split.reshape(ROWS, -1)[:rows]


def into_squares(x: torch.Tensor) -> torch.Tensor:
    """x [rows <= 64, width], of a residual stream -> [width / 8, 32, 2], sums of squares of x
    ``COPY`` over 8 columns each, rows as groups hold them."""
    return _split(x * COPY, 8).square().sum((4, 5)).permute(3, 0, 2, 1).reshape(-1, 32, 2)


def mean_square(squares: torch.Tensor, rows: int) -> torch.Tensor:
    """Of ``into_squares`` -> [rows], the mean of x squared over the width."""
    mean = squares.sum(0) / (8 * len(squares) * COPY**2)
    return mean.view(4, 8, 2).transpose(1, 2).reshape(ROWS)[:rows]


def into_fragments(x: torch.Tensor) -> torch.Tensor:
    """x [rows <= 64, width], width a multiple of 16 -> [width / 16, 4, 32, 8], as a product takes
    its first operand; rows that are missing are zeros."""
    pairs = _split(x, 16).unflatten(4, (2, 4))  # which 8 columns of the 16, which two of those
    return pairs.permute(3, 0, 2, 5, 4, 1, 6).reshape(-1, 4, 32, 8)


def from_fragments(x: torch.Tensor, rows: int) -> torch.Tensor:
    """[width / 16, 4, 32, 8] -> [rows, width], contiguous."""
    split = x.view(-1, 4, 8, 4, 2, 2, 2).permute(1, 5, 2, 0, 4, 3, 6)
    return split.reshape(ROWS, -1)[:rows]


def _split(x: torch.Tensor, columns: int) -> torch.Tensor:
    """-> [warp, 8 rows apart, row, columns apart, pair of columns, 2]."""
    rows, width = x.shape
    if rows > ROWS or width % columns:
        raise ValueError(f"64 rows at most, a width in steps of {columns}; not {rows} x {width}")
    full = x if rows == ROWS else torch.cat([x, x.new_zeros(ROWS - rows, width)])
    return full.view(4, 2, 8, width // columns, columns // 2, 2)
