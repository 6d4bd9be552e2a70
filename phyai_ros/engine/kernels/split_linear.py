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
from phyai_ros.engine.kernels.regroup import fragment_at, group_at
from phyai_ros.engine.kernels.stream_linear import narrow_row


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
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype, first: int = 0
) -> torch.Tensor:
    """x [rows <= 64, K], weight [width, K], bias [width], float32 -> silu(x W^T + bias) in halves,
    the first twice, behind ``first`` rows of zeros: fragments of 3 width columns."""
    high, low = halves(F.silu(F.linear(x, weight, bias)), dtype)
    rows = torch.cat([high, high, low], dim=1)
    return into_fragments(torch.cat([rows.new_zeros(first, rows.shape[1]), rows]))


@jit
def rows_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, rows, width, K, first,
    WIDE: tl.constexpr, COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    row = place - first
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    y = narrow_row(x_ptr, w_ptr, bias_ptr, row, columns, rows, width, K, WIDE, PDL)
    y = tl.where((row >= 0) & (row < rows), y / (1.0 + tl.exp(-y)), 0.0)
    high = y.to(out_ptr.dtype.element_ty)
    low = (y - high.to(tl.float32)).to(out_ptr.dtype.element_ty)
    inside = columns < width
    at = fragment_at(group_at(place, columns))
    tl.store(out_ptr + at, high, mask=inside)
    tl.store(out_ptr + width * 64 + at, high, mask=inside)
    tl.store(out_ptr + width * 128 + at, low, mask=inside)


def fused_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, out: torch.Tensor,
    first: int = 0, dependent: bool = False,
) -> None:  # fmt: skip
    """``reference_rows`` in one launch into ``out``, fragments of 3 width columns or more, whose
    dtype it is; all contiguous."""
    (rows, k), width = x.shape, len(weight)
    wide = power_of_two(k)
    columns = min(power_of_two(width), 4096 // wide)
    options = {"launch_pdl": True} if dependent else {}
    rows_kernel[(ROWS, -(-width // columns))](
        x, weight, bias, out, rows, width, k, first,
        WIDE=wide, COLUMNS=columns, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
