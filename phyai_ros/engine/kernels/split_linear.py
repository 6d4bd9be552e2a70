# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A float32 layer as a product of 16-bit numbers: each of its numbers is the sum of two of them, so
that the product has three times the depth, and an error of 2^-16 (bfloat16) or 2^-21 (float16).

What comes in is made on the way: SiLU of a narrow linear map, few rows, as fragments of the next
``cluster_product``.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.fragments import ROWS, into_fragments
from phyai_ros.engine.kernels.stream_linear import group_at


def halves(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """x as the sum of two tensors of ``dtype``, the second of what the first leaves."""
    high = x.to(dtype)
    return high, (x - high.to(x.dtype)).to(dtype)


def packed(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """weight [n, k] -> [n, 3 k] for rows of ``reference_rows``: without the product of the two
    small parts."""
    high, low = halves(weight, dtype)
    return torch.cat([high, low, high], dim=1)


def reference_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """x [rows <= 64, K], weight [width, K], bias [width], float32 -> silu(x W^T + bias) in halves,
    the first twice: fragments of 3 width columns."""
    high, low = halves(F.silu(F.linear(x, weight, bias)), dtype)
    return into_fragments(torch.cat([high, high, low], dim=1))


@jit
def rows_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, rows, width, K,
    WIDE: tl.constexpr, COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, WIDE)
    inside = columns < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    there = inside[:, None] & (k < K)[None, :]
    w = tl.load(w_ptr + columns[:, None] * K + k[None, :], mask=there, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=inside, other=0.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + row * K + k, mask=(k < K) & (row < rows), other=0.0)
    y = tl.sum(w * x[None, :], 1) + bias
    y = tl.where(row < rows, y / (1.0 + tl.exp(-y)), 0.0)
    high = y.to(out_ptr.dtype.element_ty)
    low = (y - high.to(tl.float32)).to(out_ptr.dtype.element_ty)
    at = group_at(row, columns)
    group, rest = at // 512, at % 512
    at = group // 2 * 1024 + rest // 4 * 8 + group % 2 * 4 + rest % 4
    tl.store(out_ptr + at, high, mask=inside)
    tl.store(out_ptr + width * 64 + at, high, mask=inside)
    tl.store(out_ptr + width * 128 + at, low, mask=inside)


def fused_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, out: torch.Tensor,
    dependent: bool = False,
) -> None:  # fmt: skip
    """``reference_rows`` in one launch into ``out``, fragments of 3 width columns or more, whose
    dtype it is; all contiguous."""
    (rows, k), width = x.shape, len(weight)
    wide = power_of_two(k)
    columns = min(power_of_two(width), 4096 // wide)
    options = {"launch_pdl": True} if dependent else {}
    rows_kernel[(ROWS, -(-width // columns))](
        x, weight, bias, out, rows, width, k,
        WIDE=wide, COLUMNS=columns, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
