# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The narrow linear maps at both ends of a residual stream in groups (``regroup``): action vectors
in, and behind the last norm out, with the Euler step that follows. Float32, few rows; a block takes
one row and some columns."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import flow_step, regroup
from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.flow_step import Euler, stepped
from phyai_ros.engine.kernels.fragments import COPY, ROWS, from_groups
from phyai_ros.engine.kernels.regroup import fragment_at, group_at


def reference_into(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype,
    scale: torch.Tensor | None = None,
) -> regroup.Into:  # fmt: skip
    """x [rows <= 64, K], weight [width, K], bias [width] -> the stream x W^T + bias, its copy in
    ``dtype`` and its squares, as ``regroup.reference_into`` gives them."""
    return regroup.reference_into(F.linear(x, weight, bias), dtype, scale)


def reference_out(
    stream: torch.Tensor, rows: int, weight: torch.Tensor, bias: torch.Tensor, eps: float,
    euler: Euler | None = None, first: int = 0,
) -> torch.Tensor:  # fmt: skip
    """stream: groups of ``width`` columns; weight [N, width], bias [N]: what the norm multiplies
    and adds is in them; first: rows of the stream that nothing is made of. -> v = x / rms(x) W^T +
    bias [rows - first, N], or what ``euler`` makes of that velocity."""
    x = from_groups(stream, rows)[first:]
    v = F.linear(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps), weight, bias)
    if euler is None:
        return v
    return flow_step.reference(euler.x, v, euler.target, euler.weights, **euler.step._asdict())


@jit
def narrow_row(
    x_ptr, w_ptr, bias_ptr, row, columns, rows, width, K, WIDE: tl.constexpr, PDL: tl.constexpr
):
    """These columns of a row of x W^T + bias, early; of a row that is not there, of zeros."""
    k = tl.arange(0, WIDE)
    inside = columns < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    there = inside[:, None] & (k < K)[None, :]
    w = tl.load(w_ptr + columns[:, None] * K + k[None, :], mask=there, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=inside, other=0.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + row * K + k, mask=(k < K) & (row >= 0) & (row < rows), other=0.0)
    return tl.sum(w * x[None, :], 1) + bias


@jit
def into_kernel(
    x_ptr, w_ptr, bias_ptr, scale_ptr, stream_ptr, copy_ptr, squares_ptr, rows, width, K,
    WIDE: tl.constexpr, COLUMNS: tl.constexpr, SCALED: tl.constexpr, SHARE: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    first = tl.program_id(1) * COLUMNS
    columns = first + tl.arange(0, COLUMNS)
    y = narrow_row(x_ptr, w_ptr, bias_ptr, row, columns, rows, width, K, WIDE, PDL)
    y = tl.where(row < rows, y, 0.0)
    inside = columns < width
    at = group_at(row, columns)
    tl.store(stream_ptr + at, y, mask=inside)
    y *= SHARE
    groups = first // 8 + tl.arange(0, COLUMNS // 8)
    squares = tl.sum(tl.reshape(y * y, (COLUMNS // 8, 8)), 1)
    slot = (row // 16 * 8 + row % 8) * 2 + row // 8 % 2
    tl.store(squares_ptr + groups * 64 + slot, squares, mask=groups * 8 < width)
    if SCALED:
        y *= tl.load(scale_ptr + columns, mask=inside, other=0.0)
    tl.store(copy_ptr + fragment_at(at), y.to(copy_ptr.dtype.element_ty), mask=inside)


@jit
def out_kernel(
    stream_ptr, w_ptr, bias_ptr, out_ptr, x_ptr, target_ptr, weights_ptr, first, N, width, eps,
    sign, rest, pull, inverse_steps,
    WIDE: tl.constexpr, COLUMNS: tl.constexpr, EULER: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, WIDE)
    inside = columns < N
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    there = inside[:, None] & (k < width)[None, :]
    w = tl.load(w_ptr + columns[:, None] * width + k[None, :], mask=there, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=inside, other=0.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(stream_ptr + group_at(first + row, k), mask=k < width, other=0.0)
    inverse = tl.rsqrt(tl.sum(x * x, 0) / width + eps)
    y = tl.sum(w * x[None, :], 1) * inverse + bias
    at = row * N + columns
    if EULER:
        begin = tl.load(x_ptr + at, mask=inside, other=0.0)
        target = tl.load(target_ptr + at, mask=inside, other=0.0)
        weight = tl.load(weights_ptr + at, mask=inside, other=0.0)
        y = stepped(begin, y, target, weight, sign, rest, pull, inverse_steps)
    tl.store(out_ptr + at, y, mask=inside)


def fits(weight: torch.Tensor) -> bool:
    """Float32, and one side narrow."""
    return (
        weight.dtype == torch.float32
        and weight.is_contiguous()
        and min(weight.shape) <= ROWS
        and max(weight.shape) <= 2048
    )


def fused_into(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype,
    scale: torch.Tensor | None = None, *, dependent: bool = False,
) -> regroup.Into:  # fmt: skip
    """``reference_into`` in one launch; x and scale contiguous."""
    (rows, k), width = x.shape, len(weight)
    made = regroup.empty_into(width, dtype, x)
    wide = power_of_two(k)
    columns = min(power_of_two(width), 4096 // wide)
    options = {"launch_pdl": True} if dependent else {}
    into_kernel[(ROWS, -(-width // columns))](
        x, weight, bias, bias if scale is None else scale, *made, rows, width, k,
        WIDE=wide, COLUMNS=columns, SCALED=scale is not None, SHARE=COPY, PDL=dependent,
        num_warps=4, **options,
    )  # fmt: skip
    return made


def fused_out(
    stream: torch.Tensor, rows: int, weight: torch.Tensor, bias: torch.Tensor, eps: float, *,
    euler: Euler | None = None, first: int = 0, dependent: bool = False,
) -> torch.Tensor:  # fmt: skip
    """``reference_out`` in one launch; euler's tensors contiguous."""
    (n, width), rows = weight.shape, rows - first
    out = torch.empty(rows, n, dtype=stream.dtype, device=stream.device)
    wide = power_of_two(width)
    columns = max(1, min(power_of_two(n), 4096 // wide))
    options = {"launch_pdl": True} if dependent else {}
    given = (out, out, out) if euler is None else euler[:3]
    sign, rest, pull, steps = (0.0, 0.0, 0.0, 1) if euler is None else euler.step
    out_kernel[(rows, -(-n // columns))](
        stream, weight, bias, out, *given, first, n, width, eps, sign, rest, pull, 1.0 / steps,
        WIDE=wide, COLUMNS=columns, EULER=euler is not None, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return out
