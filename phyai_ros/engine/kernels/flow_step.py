# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One Euler step of a flow with the identity form of real-time chunking (``solver.RtcIdentity``).

u      = sign v
x_next = x + (u + w (Y - (x + (1 - tau) u)) W) / steps
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from phyai_ros.engine.kernels._triton import jit, tl


class Step(NamedTuple):
    """A step's numbers. sign: of a velocity towards the actions; rest: 1 - tau; pull: w; steps: how
    many there are."""

    sign: float
    rest: float
    pull: float
    steps: int


class Euler(NamedTuple):
    """What a step takes beside the velocity: x, target (Y) and weights (W), of one shape."""

    x: torch.Tensor
    target: torch.Tensor
    weights: torch.Tensor
    step: Step

    @staticmethod
    def of(x: torch.Tensor, target: torch.Tensor, weights: torch.Tensor, step: Step) -> Euler:
        """x [B, T, n]; the others broadcast to it -> [B T, n], contiguous."""
        at, to, by = (t.expand_as(x).contiguous().flatten(0, 1) for t in (x, target, weights))
        return Euler(at, to, by, step)


def reference(
    x: torch.Tensor,
    v: torch.Tensor,
    target: torch.Tensor,
    weights: torch.Tensor,
    *,
    sign: float,
    rest: float,
    pull: float,
    steps: int,
) -> torch.Tensor:
    """x, v: one shape; target (Y), weights (W): broadcast to it; the numbers: ``Step``.
    -> x_next."""
    u = sign * v
    return x + (u + pull * ((target - (x + rest * u)) * weights)) / steps


@jit
def stepped(x, v, target, weight, sign, rest, pull, inverse):
    """inverse: 1 / steps."""
    u = sign * v
    return x + (u + pull * ((target - (x + rest * u)) * weight)) * inverse


@jit
def flow_step_kernel(
    x_ptr, v_ptr, target_ptr, weights_ptr, out_ptr, count, sign, rest, pull, inverse,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    v = tl.load(v_ptr + i, mask=inside, other=0.0)
    y = tl.load(target_ptr + i, mask=inside, other=0.0)
    w = tl.load(weights_ptr + i, mask=inside, other=0.0)
    tl.store(out_ptr + i, stepped(x, v, y, w, sign, rest, pull, inverse), mask=inside)


def fused(
    x: torch.Tensor,
    v: torch.Tensor,
    target: torch.Tensor,
    weights: torch.Tensor,
    *,
    sign: float,
    rest: float,
    pull: float,
    steps: int,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch; float32."""
    x, v, target, weights = (t.expand_as(x).contiguous() for t in (x, v, target, weights))
    out = torch.empty_like(x)
    options = {"launch_pdl": True} if dependent else {}
    flow_step_kernel[(-(-x.numel() // 256),)](
        x, v, target, weights, out, x.numel(), float(sign), float(rest), float(pull), 1.0 / steps,
        BLOCK=256, PDL=dependent, num_warps=2, **options,
    )  # fmt: skip
    return out
