# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""x W^T + b in float32 for few rows and a narrow side: the action vectors in and out of a flow.

Too small for a product's tiles; each block takes one row and some columns.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.skinny_linear import _activate, activate


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = ""
) -> torch.Tensor:
    """x [M, K], weight [N, K], bias [N], one dtype -> activation(x W^T + bias) [M, N]."""
    return activate(F.linear(x, weight, bias), activation)


@jit
def row_linear_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, N, K,
    WIDE: tl.constexpr, COLUMNS: tl.constexpr, HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, WIDE)
    there = (columns < N)[:, None] & (k < K)[None, :]
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    w = tl.load(w_ptr + columns[:, None] * K + k[None, :], mask=there, other=0.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    y = tl.sum(w * x[None, :], 1)
    if HAS_BIAS:
        y += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
    y = _activate(y, ACTIVATION)
    tl.store(out_ptr + row * N + columns, y, mask=columns < N)


def fits(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Few rows, and one side narrow."""
    (m, k), n = x.shape, weight.shape[0]
    return x.dtype == weight.dtype == torch.float32 and m <= 64 and k <= 2048 and min(k, n) <= 64


def fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch; x contiguous, float32."""
    (m, k), n = x.shape, weight.shape[0]
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    wide = power_of_two(k)
    columns = max(1, min(power_of_two(n), 4096 // wide))
    options = {"launch_pdl": True} if dependent else {}
    row_linear_kernel[(m, -(-n // columns))](
        x, weight, bias if bias is not None else x, out, n, k, WIDE=wide, COLUMNS=columns,
        HAS_BIAS=bias is not None, ACTIVATION=activation, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return out
