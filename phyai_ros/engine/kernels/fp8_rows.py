# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Passes that leave E4M3 rows, each with its scale, where the next product reads them; or E5M2.

A program has a whole row in registers, so its largest magnitude costs no second pass. Inputs may be
a raw product of E4M3 numbers, whose scales are then applied here: value * rows[m] * columns[n].
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from phyai_ros.engine.kernels import gated_activation
from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.skinny_linear import _activate, activate
from phyai_ros.engine.quantize import E4M3, E5M2, QuantizedRows, quantize_rows


class Product(NamedTuple):
    """A product before its scales: values [M, N]; rows float32 [M], or None; columns [N], factors
    in float32 or exponents of two in int8; bias [N]. Stands for values * rows[:, None] * columns +
    bias."""

    values: torch.Tensor
    rows: torch.Tensor | None
    columns: torch.Tensor
    bias: torch.Tensor | None = None

    def scaled(self) -> torch.Tensor:
        """Without the bias."""
        wide = torch.float64 if self.values.dtype == torch.float64 else torch.float32
        columns = self.columns.to(wide)
        columns = torch.exp2(columns) if self.columns.dtype == torch.int8 else columns
        values = self.values.to(wide)
        return (values if self.rows is None else values * self.rows.to(wide)[:, None]) * columns


def reference(
    x: torch.Tensor | Product,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    gated: bool = False,
    rows: torch.dtype = E4M3,
) -> QuantizedRows:
    """x [M, N] -> activation(x + bias) quantised, [M, N]; with ``gated`` x [M, 2 N] ->
    activation(gate) * up, [M, N]. rows: E4M3, or E5M2."""
    y = x.scaled() if isinstance(x, Product) else x
    bias = x.bias if isinstance(x, Product) and bias is None else bias
    y = y if y.dtype == torch.float64 else y.float()
    if bias is not None:
        y = y + bias.to(y.dtype)
    if gated:
        return quantize_rows(gated_activation.reference(y, activation), rows)
    return quantize_rows(activate(y, activation), rows)


@jit
def _factors(pointers, mask):
    """Factors in float32, or exponents of two in int8."""
    x = tl.load(pointers, mask=mask, other=0)
    if x.dtype == tl.int8:
        x = ((x.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return x


@jit
def _quantise(y, out_ptr, scale_ptr, row, N, at, inside, factor):
    """Store one row [BLOCK] of y as E4M3, and its scale times ``factor``."""
    most = tl.max(tl.where(inside, tl.abs(y), 0.0), 0)
    scale = tl.where(most == 0.0, 1.0, most / 448.0)
    tl.store(scale_ptr + row, scale * factor)
    small = (y * (1.0 / scale)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * N + at, small, mask=inside)


@jit
def fp8_rows_kernel(
    x_ptr, rows_ptr, columns_ptr, bias_ptr, out_ptr, scale_ptr, N,
    BLOCK: tl.constexpr, SCALED: tl.constexpr, HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr, GATED: tl.constexpr, PLAIN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < N
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    if HAS_BIAS:
        bias = tl.load(bias_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if PDL:
        tl.extra.cuda.gdc_wait()
    here = x_ptr + row * N * (2 if GATED else 1) + at
    y = tl.load(here, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
    rest = 1.0  # what the row's scale takes over
    if SCALED:
        factor = tl.load(rows_ptr + row)
        y *= factor * _factors(columns_ptr + at, inside)
    if HAS_BIAS:
        y += bias
    y = _activate(y, ACTIVATION)
    if GATED:
        up = tl.load(here + N, mask=inside, other=0.0, eviction_policy="evict_first")
        y *= up.to(tl.float32)
        if SCALED:
            y *= _factors(columns_ptr + N + at, inside)
            rest = factor
    if PLAIN:  # E5M2; what is no number stays none, which the hardware's minimum would make one
        y = tl.clamp(y * rest, -57344.0, 57344.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(out_ptr + row * N + at, y.to(out_ptr.dtype.element_ty), mask=inside)
    else:
        _quantise(y, out_ptr, scale_ptr, row, N, at, inside, rest)


def fused(
    x: torch.Tensor | Product,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    gated: bool = False,
    rows: torch.dtype = E4M3,
    dependent: bool = False,
) -> QuantizedRows:
    """``reference`` in one launch; contiguous."""
    values = x.values if isinstance(x, Product) else x
    if isinstance(x, Product) and bias is None:
        bias = x.bias
    m, n = values.shape[0], values.shape[1] // (2 if gated else 1)
    out = torch.empty(m, n, dtype=rows, device=values.device)
    plain = rows == E5M2
    scale = torch.empty(0 if plain else m, dtype=torch.float32, device=values.device)
    block = power_of_two(n)
    options = {"launch_pdl": True} if dependent else {}
    scales = (x.rows, x.columns) if isinstance(x, Product) else (values, values)
    fp8_rows_kernel[(m,)](
        values, *scales, values if bias is None else bias, out, scale, n, BLOCK=block,
        SCALED=isinstance(x, Product), HAS_BIAS=bias is not None, ACTIVATION=activation,
        GATED=gated, PLAIN=plain, PDL=dependent, num_warps=max(4, min(16, block // 1024)),
        **options,
    )  # fmt: skip
    return QuantizedRows(out, None if plain else scale)
