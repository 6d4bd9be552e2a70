# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``add_norm`` around FP8 products: the branch may be a raw product, whose scales are applied here,
and the result may be E4M3 rows.

    x <- x + gate * (branch * rows[m] * columns[n] + bias)
    h  = norm(x) * scale + shift, quantised a row
"""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels import add_norm
from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.add_norm import normed, summed
from phyai_ros.engine.kernels.ahead import Ahead, ask
from phyai_ros.engine.kernels.fp8_rows import Product, _factors, _quantise
from phyai_ros.engine.quantize import E4M3, QuantizedRows, quantize_rows


def reference(
    x: torch.Tensor,
    branch: torch.Tensor | Product | None,
    *,
    kind: str,
    eps: float,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    ahead: torch.Tensor | None = None,
    pick: torch.Tensor | None = None,
) -> torch.Tensor | QuantizedRows:
    """As ``add_norm.reference``; E4M3 rows where ``dtype`` is E4M3. start, pick: not in ``fused``,
    for what begins at a norm are image towers, which stay in 16 bits."""
    plain = branch.scaled() if isinstance(branch, Product) else branch
    bias = branch.bias if isinstance(branch, Product) and bias is None else bias
    h = add_norm.reference(
        x, plain, kind=kind, eps=eps, dtype=x.dtype if dtype == E4M3 else dtype, bias=bias,
        gate=gate, scale=scale, shift=shift, start=start, pick=pick,
    )  # fmt: skip
    return quantize_rows(h) if dtype == E4M3 else h


@jit
def fp8_norm_kernel(
    x_ptr, branch_ptr, rows_ptr, columns_ptr, bias_ptr, gate_ptr, scale_ptr, shift_ptr, out_ptr,
    out_scale_ptr, ahead_ptr, rows, width, ahead_count, ahead_row, ahead_stride, eps,
    PARTS: tl.constexpr, SCALED: tl.constexpr, HAS_ROWS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_GATE: tl.constexpr, HAS_SCALE: tl.constexpr,
    HAS_SHIFT: tl.constexpr, RMS: tl.constexpr, QUANTISED: tl.constexpr, BLOCK: tl.constexpr,
    STEP: tl.constexpr, SHARE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    # What the kernel in front does not write may be read before it ends.
    if HAS_SCALE:
        scale = tl.load(scale_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_SHIFT:
        shift = tl.load(shift_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_GATE:
        gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if SCALED:
        columns = _factors(columns_ptr + at, inside)
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + row * width + at, mask=inside, other=0.0)
    if PARTS > 0:
        branch = summed(branch_ptr, row, rows, width, at, inside, BLOCK, PARTS)
        if SCALED:
            branch *= columns
        if HAS_ROWS:
            branch *= tl.load(rows_ptr + row)
        if HAS_BIAS:
            branch += bias
        if HAS_GATE:
            branch *= gate
        x += branch
        tl.store(x_ptr + row * width + at, x, mask=inside)
    if PDL and SHARE > 0:
        ask(row, ahead_ptr, ahead_count, ahead_row, ahead_stride, STEP, SHARE)
    h = normed(x, inside, width, eps, RMS)
    if HAS_SCALE:
        h *= scale
    if HAS_SHIFT:
        h += shift
    if QUANTISED:
        _quantise(h, out_ptr, out_scale_ptr, row, width, at, inside, 1.0)
    else:
        tl.store(out_ptr + row * width + at, h.to(out_ptr.dtype.element_ty), mask=inside)


def fused(
    x: torch.Tensor,
    branch: torch.Tensor | Product | None,
    *,
    kind: str,
    eps: float,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    ahead: torch.Tensor | None = None,
    dependent: bool = False,
) -> torch.Tensor | QuantizedRows:
    """``reference`` in one launch. x float32, all contiguous. Raises TypeError for what it does not
    take."""
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=dtype, device=x.device)
    out_scale = torch.empty(rows if dtype == E4M3 else 0, dtype=torch.float32, device=x.device)
    values = branch.values if isinstance(branch, Product) else branch
    if isinstance(branch, Product) and bias is None:
        bias = branch.bias
    product = branch if isinstance(branch, Product) else None
    factors = None if product is None else product.rows
    parts = 0 if values is None else values.shape[0] if values.ndim == 3 else 1
    block, asked = power_of_two(width), Ahead.of(ahead, rows, x)
    options = {"launch_pdl": True} if dependent else {}
    fp8_norm_kernel[(rows,)](
        x, values if values is not None else x, x if factors is None else factors,
        x if product is None else product.columns, bias if bias is not None else x,
        gate if gate is not None else x, scale if scale is not None else x,
        shift if shift is not None else x, out, out_scale,
        asked.weight, rows, width, asked.lines, asked.a_row, asked.stride, eps,
        PARTS=parts, SCALED=product is not None, HAS_ROWS=factors is not None,
        HAS_BIAS=bias is not None,
        HAS_GATE=gate is not None, HAS_SCALE=scale is not None, HAS_SHIFT=shift is not None,
        RMS=kind == "rms", QUANTISED=dtype == E4M3, BLOCK=block,
        **asked.constants, PDL=dependent, num_warps=8 if block > 1024 else 4, **options,
    )  # fmt: skip
    return QuantizedRows(out, out_scale) if dtype == E4M3 else out
