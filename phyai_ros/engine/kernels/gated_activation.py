# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""activation(gate) * up, where gate and up are the halves of one product's columns."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.skinny_linear import _activate, activate


def reference(x: torch.Tensor, activation: str) -> torch.Tensor:
    """x [M, 2 N] -> [M, N]; computed in float32, rounded once."""
    gate, up = x.float().chunk(2, dim=-1) if x.dtype != torch.float64 else x.chunk(2, dim=-1)
    return (activate(gate, activation) * up).to(x.dtype)


@jit
def gated_activation_kernel(
    x_ptr, out_ptr, N, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr, PDL: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    gate = tl.load(x_ptr + row * 2 * N + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * N + N + at, mask=inside, other=0.0).to(tl.float32)
    y = _activate(gate, ACTIVATION) * up
    tl.store(out_ptr + row * N + at, y.to(out_ptr.dtype.element_ty), mask=inside)


def fused(x: torch.Tensor, activation: str, *, dependent: bool = False) -> torch.Tensor:
    """``reference`` in one launch. x contiguous."""
    m, n = x.shape[0], x.shape[1] // 2
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    block = min(power_of_two(n), 2048)
    options = {"launch_pdl": True} if dependent else {}
    gated_activation_kernel[(m, -(-n // block))](
        x, out, n, BLOCK=block, ACTIVATION=activation, PDL=dependent, num_warps=8, **options
    )
    return out
