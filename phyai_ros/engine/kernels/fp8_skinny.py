# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Products of few 16-bit rows with an E4M3 weight: half the bytes to stream.

The weight becomes 16 bit in registers and is the left operand, so that only the rows go through
shared memory; its channel scale is applied to the float32 sums. Splits of K as in
``skinny_linear``. The twins are those of ``skinny_linear`` and ``gated_linear`` with a
``QuantizedWeight``.
"""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.skinny_linear import Tile, _activate, _prefetch
from phyai_ros.engine.quantize import QuantizedWeight

_LINE = 128
"""E4M3 numbers of a cache line."""


@jit
def fp8_skinny_kernel(
    x_ptr, w_ptr, scale_ptr, bias_ptr, out_ptr, M, N, K, x_stride,
    DEPTH_PER_SPLIT: tl.constexpr, LINES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr, IEEE: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    start = part * DEPTH_PER_SPLIT
    depth = tl.arange(0, DEPTH)
    w_row = w_ptr + columns.to(tl.int64) * K + start
    up_row = w_row + N.to(tl.int64) * K
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        spots = tl.minimum(tl.arange(0, LINES) * 128, DEPTH_PER_SPLIT - 64)
        _prefetch(w_row[:, None] + spots[None, :])
        if GATED:
            _prefetch(up_row[:, None] + spots[None, :])
        tl.extra.cuda.gdc_wait()
    w_at = w_row[:, None] + depth[None, :]
    up_at = up_row[:, None] + depth[None, :]
    x_at = x_ptr + rows[None, :] * x_stride + start + depth[:, None]
    there = rows[None, :] < M
    total = tl.zeros([COLUMNS, ROWS], tl.float32)
    up = tl.zeros([COLUMNS, ROWS], tl.float32)
    for _ in range(0, DEPTH_PER_SPLIT, DEPTH):
        x = tl.load(x_at, mask=there, other=0.0)
        w = tl.load(w_at).to(x.dtype)
        total = tl.dot(w, x, total, input_precision="ieee" if IEEE else "tf32")
        if GATED:
            u = tl.load(up_at).to(x.dtype)
            up = tl.dot(u, x, up, input_precision="ieee" if IEEE else "tf32")
            up_at += DEPTH
        x_at += DEPTH
        w_at += DEPTH
    total *= tl.load(scale_ptr + columns)[:, None]
    if HAS_BIAS:
        total += tl.load(bias_ptr + columns).to(tl.float32)[:, None]
    total = _activate(total, ACTIVATION)
    if GATED:
        total *= up * tl.load(scale_ptr + N + columns)[:, None]
    out = out_ptr + part * M * N + rows[None, :] * N + columns[:, None]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=there)


def fused(
    x: torch.Tensor,
    weight: QuantizedWeight,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    tile: Tile,
    parts: bool = False,
    gated: bool = False,
    dependent: bool = False,
) -> torch.Tensor:
    """x [M, K], weight [N, K] -> [M, N] in x's dtype; with ``parts`` [splits, M, N] float32; with
    ``gated`` (weight [2 N, K], gate then up) activation(gate) * up."""
    (m, k), n = x.shape, weight.shape[0] // (2 if gated else 1)
    if not tile.fits(n, k) or (tile.splits > 1 and not parts):
        raise ValueError(f"{tile} does not fit N {n}, K {k}, parts {parts}")
    shape = (tile.splits, m, n) if parts else (m, n)
    out = torch.empty(shape, dtype=torch.float32 if parts else x.dtype, device=x.device)
    rows, per_split = 64 if m > 32 else 16, k // tile.splits
    options = {"launch_pdl": True} if dependent else {}
    fp8_skinny_kernel[(n // tile.columns, tile.splits, -(-m // rows))](
        x, weight.values, weight.scale, bias if bias is not None else x, out, m, n, k, x.stride(0),
        DEPTH_PER_SPLIT=per_split, LINES=power_of_two(max(1, -(-per_split // _LINE))),
        ROWS=rows, COLUMNS=tile.columns, DEPTH=tile.depth, HAS_BIAS=bias is not None,
        ACTIVATION=activation, GATED=gated, IEEE=x.dtype == torch.float32, PDL=dependent,
        num_warps=tile.warps, num_stages=tile.stages, **options,
    )  # fmt: skip
    return out
