# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Residual, then norm, then modulation, in one pass over the rows.

    x <- x + gate * (sum of the branch's parts + bias)
    h  = norm(x) * scale + shift

norm: "rms" is x / rms(x), "layer" is (x - mean) / std; statistics in float32 over the row. With
``pick`` a row takes one of several sets of gate, scale and shift. A stream may begin here
(``start``), and rows of h may change places (``order``).
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.ahead import Ahead, ask


def reference(
    x: torch.Tensor,
    branch: torch.Tensor | None,
    *,
    kind: str,
    eps: float,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    pick: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    order: torch.Tensor | None = None,
    ahead: torch.Tensor | None = None,
) -> torch.Tensor:
    """x [rows, width], changed in place. branch: [rows, width], or [parts, rows, width] to be
    summed. bias, gate, scale, shift: [width] or None. pick: int32 [rows], then gate, scale and
    shift are [sets, width] and row r takes set ``pick[r]``. start: [every, width], what x is before
    the branch, every so many rows anew; what stood there does not count. order: int32 [every],
    of every so many rows the r-th of h is put at ``order[r]``. ahead: the weight of the next
    product, which changes nothing (``ahead.Ahead``). -> h [rows, width] in ``dtype``."""
    if start is not None:
        x.view(-1, *start.shape).copy_(start)
    if pick is not None:
        gate, scale, shift = (None if v is None else v[pick] for v in (gate, scale, shift))
    if branch is not None:
        wide = branch.to(x.dtype)
        wide = wide.sum(0) if branch.ndim == 3 else wide
        if bias is not None:
            wide = wide + bias.to(x.dtype)
        if gate is not None:
            wide = wide * gate.to(x.dtype)
        x.add_(wide)
    if kind == "rms":
        h = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    else:
        h = F.layer_norm(x, x.shape[-1:], eps=eps)
    if scale is not None:
        h = h * scale.to(x.dtype)
    if shift is not None:
        h = h + shift.to(x.dtype)
    h = h.to(dtype)
    if order is not None:
        h = h.view(-1, len(order), h.shape[1])[:, order.argsort()].flatten(0, 1)
    return h


@jit
def summed(
    parts_ptr, row, rows, width, at, inside, BLOCK: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """A row of parts [PARTS, rows, width], added; float32 [BLOCK]."""
    total = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(PARTS):
        here = parts_ptr + part * rows * width + row * width + at
        total += tl.load(here, mask=inside, other=0.0).to(tl.float32)
    return total


@jit
def normed(x, inside, width, eps, RMS: tl.constexpr):
    """norm(x) of a row [BLOCK], float32, zero where it is not ``inside``: by its root mean square,
    or by mean and standard deviation."""
    if RMS:
        return x * tl.rsqrt(tl.sum(x * x, 0) / width + eps)
    else:
        centred = tl.where(inside, x - tl.sum(x, 0) / width, 0.0)
        return centred * tl.rsqrt(tl.sum(centred * centred, 0) / width + eps)


@jit
def add_norm_kernel(
    x_ptr, branch_ptr, bias_ptr, gate_ptr, scale_ptr, shift_ptr, out_ptr,
    pick_ptr, start_ptr, order_ptr, ahead_ptr, rows, width, starts, orders,
    ahead_count, ahead_row, ahead_stride, eps,
    PARTS: tl.constexpr, HAS_PICK: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_GATE: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_START: tl.constexpr,
    HAS_ORDER: tl.constexpr, RMS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
    SHARE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    # What the kernel in front does not write may be read before it ends.
    own = at
    if HAS_PICK:
        own += tl.load(pick_ptr + row) * width
    if HAS_SCALE:
        scale = tl.load(scale_ptr + own, mask=inside, other=0.0).to(tl.float32)
    if HAS_SHIFT:
        shift = tl.load(shift_ptr + own, mask=inside, other=0.0).to(tl.float32)
    if HAS_GATE:
        gate = tl.load(gate_ptr + own, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_START:
        begin = start_ptr + row % starts * width + at
        x = tl.load(begin, mask=inside, other=0.0).to(tl.float32)
    to = row
    if HAS_ORDER:
        to = row // orders * orders + tl.load(order_ptr + row % orders)
    if PDL:
        tl.extra.cuda.gdc_wait()
    if not HAS_START:
        x = tl.load(x_ptr + row * width + at, mask=inside, other=0.0)
    if PARTS > 0:
        branch = summed(branch_ptr, row, rows, width, at, inside, BLOCK, PARTS)
        if HAS_BIAS:
            branch += bias
        if HAS_GATE:
            branch *= gate
        x += branch
    if PARTS > 0 or HAS_START:
        tl.store(x_ptr + row * width + at, x, mask=inside)
    if PDL and SHARE > 0:
        ask(row, ahead_ptr, ahead_count, ahead_row, ahead_stride, STEP, SHARE)
    h = normed(x, inside, width, eps, RMS)
    if HAS_SCALE:
        h *= scale
    if HAS_SHIFT:
        h += shift
    tl.store(out_ptr + to * width + at, h.to(out_ptr.dtype.element_ty), mask=inside)


def fused(
    x: torch.Tensor,
    branch: torch.Tensor | None,
    *,
    kind: str,
    eps: float,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    pick: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    order: torch.Tensor | None = None,
    ahead: torch.Tensor | None = None,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch. x float32, all contiguous."""
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=dtype, device=x.device)
    parts = 0 if branch is None else branch.shape[0] if branch.ndim == 3 else 1
    block, asked = power_of_two(width), Ahead.of(ahead, rows, x)
    options = {"launch_pdl": True} if dependent else {}
    add_norm_kernel[(rows,)](
        x, branch if branch is not None else x, bias if bias is not None else x,
        gate if gate is not None else x, scale if scale is not None else x,
        shift if shift is not None else x, out, pick if pick is not None else x,
        start if start is not None else x, order if order is not None else x, asked.weight,
        rows, width, rows if start is None else len(start), rows if order is None else len(order),
        asked.lines, asked.a_row, asked.stride, eps,
        PARTS=parts, HAS_PICK=pick is not None, HAS_BIAS=bias is not None,
        HAS_GATE=gate is not None, HAS_SCALE=scale is not None, HAS_SHIFT=shift is not None,
        HAS_START=start is not None, HAS_ORDER=order is not None,
        RMS=kind == "rms", BLOCK=block, **asked.constants, PDL=dependent,
        # 1152 columns, of 768 rows, between two products: 0.8 us less by 4 warps than by 8.
        num_warps=8 if width > 1152 else 4, **options,
    )  # fmt: skip
    return out
