# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""E4M3 rows times an E4M3 weight for many rows: scales, bias, activation and gate in the epilogue.

Tiles go through the tensor memory accelerator. Hopper's FP8 units keep fewer than 24 bits of a sum;
``PROMOTE`` adds their result to a float32 register after so many terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import gated_activation
from phyai_ros.engine.kernels._triton import jit, tl, triton
from phyai_ros.engine.kernels.skinny_linear import _activate, activate
from phyai_ros.engine.quantize import QuantizedRows, QuantizedWeight


@dataclass(frozen=True)
class Fp8Tile:
    """rows x columns of a block, depth a step; blocks of rows that go together through a column of
    tiles; pipeline stages; warps."""

    rows: int = 128
    columns: int = 128
    depth: int = 128
    group: int = 8
    stages: int = 4
    warps: int = 8


def reference(
    x: QuantizedRows,
    weight: QuantizedWeight,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    gated: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """x [M, K], weight [N, K], bias [N] -> activation(x W^T + bias) [M, N] in ``dtype``, the
    weight's where None; with ``gated`` activation(gate) * up [M, N / 2]."""
    dtype = dtype or weight.dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    y = F.linear(x.dequantize(wide), weight.dequantize(wide))
    y = y if bias is None else y + bias.to(wide)
    return (gated_activation.reference(y, activation) if gated else activate(y, activation)).to(
        dtype
    )


@jit
def fp8_linear_kernel(
    x_desc, w_desc, rows_ptr, columns_ptr, bias_ptr, out_ptr, M, N,
    DEPTH_TOTAL: tl.constexpr, TURNS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    PROMOTE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tall = tl.cdiv(M, ROWS)
    wide = tl.cdiv(N, COLUMNS)
    for turn in tl.range(0, TURNS, flatten=True):
        tile = tl.program_id(0) + turn * tl.num_programs(0)
        first = tile // (GROUP * wide) * GROUP
        size = tl.maximum(tl.minimum(tall - first, GROUP), 1)  # past the last tile: all masked
        m = (first + tile % (GROUP * wide) % size) * ROWS
        n = tile % (GROUP * wide) // size * COLUMNS
        total = tl.zeros([ROWS, COLUMNS], tl.float32)
        up = tl.zeros([ROWS, COLUMNS], tl.float32)
        for k in range(0, DEPTH_TOTAL, DEPTH):
            a = x_desc.load([m, k])
            b = w_desc.load([n, k])
            total = tl.dot(a, b.T, total, max_num_imprecise_acc=PROMOTE)
            if GATED:
                c = w_desc.load([N + n, k])
                up = tl.dot(a, c.T, up, max_num_imprecise_acc=PROMOTE)
        rows = m + tl.arange(0, ROWS)
        columns = n + tl.arange(0, COLUMNS)
        factor = tl.load(rows_ptr + rows, mask=rows < M, other=0.0)[:, None]
        total *= factor * tl.load(columns_ptr + columns, mask=columns < N, other=0.0)[None, :]
        if HAS_BIAS:
            bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
            total += bias.to(tl.float32)[None, :]
        total = _activate(total, ACTIVATION)
        if GATED:
            scale = tl.load(columns_ptr + N + columns, mask=columns < N, other=0.0)
            total *= up * (factor * scale[None, :])
        out = out_ptr + rows[:, None].to(tl.int64) * N + columns[None, :]
        there = (rows < M)[:, None] & (columns < N)[None, :]
        tl.store(out, total.to(out_ptr.dtype.element_ty), mask=there)


def fused(
    x: QuantizedRows,
    weight: QuantizedWeight,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    tile: Fp8Tile,
    gated: bool = False,
    dtype: torch.dtype | None = None,
    promote: int | None = 128,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch; K a multiple of 16, and N where it is gated of the tile's
    columns."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    (m, k), n = x.shape, weight.shape[0] // (2 if gated else 1)
    if k % 16 or (gated and n % tile.columns):
        raise ValueError(f"{tile} does not fit N {n}, K {k}, gated {gated}")
    out = torch.empty(m, n, dtype=dtype or weight.dtype, device=x.values.device)
    tiles = triton.cdiv(m, tile.rows) * triton.cdiv(n, tile.columns)
    blocks = min(tiles, _processors(out.device))
    options = {"launch_pdl": True} if dependent else {}
    fp8_linear_kernel[(blocks,)](
        TensorDescriptor.from_tensor(x.values, [tile.rows, tile.depth]),
        TensorDescriptor.from_tensor(weight.values, [tile.columns, tile.depth]),
        x.scale, weight.scale, out if bias is None else bias, out, m, n,
        DEPTH_TOTAL=k, TURNS=triton.cdiv(tiles, blocks),
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, GROUP=tile.group,
        HAS_BIAS=bias is not None, ACTIVATION=activation, GATED=gated,
        PROMOTE=promote and min(promote, tile.depth), PDL=dependent,
        num_warps=tile.warps, num_stages=tile.stages, **options,
    )  # fmt: skip
    return out


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 8
    return torch.cuda.get_device_properties(device).multi_processor_count
