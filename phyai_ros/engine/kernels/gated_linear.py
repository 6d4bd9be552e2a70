# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""activation(x G^T) * (x U^T) for few rows, G and U the halves of one weight, streamed once."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, tl
from phyai_ros.engine.kernels.skinny_linear import Tile, _activate, _prefetch, activate, lines


def reference(x: torch.Tensor, weight: torch.Tensor, activation: str) -> torch.Tensor:
    """x [M, K], weight [2 N, K] (gate, then up) -> [M, N] in x's dtype."""
    gate, up = F.linear(x, weight).chunk(2, dim=-1)
    return activate(gate, activation) * up


@jit
def gated_linear_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    DEPTH_TOTAL: tl.constexpr, LINES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    ACTIVATION: tl.constexpr, IEEE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    gate_row = w_ptr + columns.to(tl.int64) * K
    up_row = gate_row + N.to(tl.int64) * K
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        spots = tl.minimum(tl.arange(0, LINES) * 64, DEPTH_TOTAL - 64)
        _prefetch(gate_row[:, None] + spots[None, :])
        _prefetch(up_row[:, None] + spots[None, :])
        tl.extra.cuda.gdc_wait()
    x_row = x_ptr + rows[:, None] * K + depth[None, :]
    gate_at = gate_row[None, :] + depth[:, None]
    up_at = up_row[None, :] + depth[:, None]
    there = rows[:, None] < M
    gate = tl.zeros([ROWS, COLUMNS], tl.float32)
    up = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in range(0, DEPTH_TOTAL, DEPTH):
        a = tl.load(x_row, mask=there, other=0.0)
        g = tl.load(gate_at)
        u = tl.load(up_at)
        gate = tl.dot(a, g, gate, input_precision="ieee" if IEEE else "tf32")
        up = tl.dot(a, u, up, input_precision="ieee" if IEEE else "tf32")
        x_row += DEPTH
        gate_at += DEPTH
        up_at += DEPTH
    y = _activate(gate, ACTIVATION) * up
    out = out_ptr + rows[:, None] * N + columns[None, :]
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=there)


def fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    activation: str,
    *,
    tile: Tile,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch; ``tile.splits`` must be 1. x contiguous."""
    (m, k), n = x.shape, weight.shape[0] // 2
    if not tile.fits(n, k) or tile.splits != 1:
        raise ValueError(f"{tile} does not fit N {n}, K {k}")
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    options = {"launch_pdl": True} if dependent else {}
    gated_linear_kernel[(n // tile.columns, -(-m // tile.rows))](
        x, weight, out, m, n, k,
        DEPTH_TOTAL=k, LINES=lines(k), ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
        ACTIVATION=activation, IEEE=x.dtype == torch.float32, PDL=dependent,
        num_warps=tile.warps, num_stages=tile.stages, **options,
    )  # fmt: skip
    return out
