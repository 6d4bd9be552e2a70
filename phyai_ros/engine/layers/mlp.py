# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Feed-forward layers as functions of their weights, plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def gated(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """down(silu(gate x) * up x), no biases (Qwen). x [..., in], weights [out, in] -> [..., in]. The
    product is taken in float32 and rounded once."""
    wide = F.silu(F.linear(x, gate).float())
    return F.linear((wide * F.linear(x, up).float()).to(x.dtype), down)


def sinusoid(
    positions: torch.Tensor,
    dim: int,
    *,
    divisor: float,
    cos_first: bool = False,
) -> torch.Tensor:
    """float32 [..., dim]: sin and cos of positions 10000^(-i/divisor), i = 0 .. dim/2 - 1,
    [sin | cos] or [cos | sin]. Diffusers' timesteps use divisor dim/2 - 1, GR00T's action time
    dim/2."""
    i = torch.arange(dim // 2, dtype=torch.float32, device=positions.device)
    exponent = -torch.log(torch.tensor(10000.0)).to(positions.device) * i / divisor
    angle = positions.float().unsqueeze(-1) * exponent.exp()
    first, second = (angle.cos(), angle.sin()) if cos_first else (angle.sin(), angle.cos())
    return torch.cat([first, second], dim=-1)
