# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Normalisation layers, plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Llama/Qwen: statistics in float32, cast back, then ``w * x``."""
    if x.dtype == torch.float32:
        return F.rms_norm(x, (x.shape[-1],), weight, eps)
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def rms_norm_one_plus(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Gemma: statistics and ``(1 + w) * x`` in float32, then cast back."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * (1.0 + weight.float())).to(x.dtype)


def ada_layer_norm(
    x: torch.Tensor, scale_plus_one: torch.Tensor, shift: torch.Tensor, eps: float
) -> torch.Tensor:
    """Layer norm without weights, then modulation by a condition: LN(x) (1 + scale) + shift.
    Takes 1 + scale ready made: it is a constant of the denoising step. Broadcast over rows."""
    return torch.addcmul(shift, F.layer_norm(x, (x.shape[-1],), None, None, eps), scale_plus_one)
