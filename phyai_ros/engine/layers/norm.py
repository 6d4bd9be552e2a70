# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Normalisation layers, plain torch, over the last axis: x [..., width], weights [width]."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Llama/Qwen: ``w x / rms(x)``, all in float32 and rounded once, to the weight's dtype. (The
    references round before ``w *`` as well, which only adds error.)"""
    return F.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(weight.dtype)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """Affine layer norm of a stream that may be wider than the weights: computed in x's dtype,
    given in the weights'."""
    if x.dtype == weight.dtype:
        return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)
    wide = F.layer_norm(x, (x.shape[-1],), weight.to(x.dtype), bias.to(x.dtype), eps)
    return wide.to(weight.dtype)


def rms_norm_one_plus(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Gemma: statistics and ``(1 + w) * x`` in float32, then cast back."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * (1.0 + weight.float())).to(x.dtype)


def ada_layer_norm(
    x: torch.Tensor, scale_plus_one: torch.Tensor, shift: torch.Tensor, eps: float
) -> torch.Tensor:
    """Layer norm without weights, then modulation by a condition: LN(x) (1 + scale) + shift.
    Takes 1 + scale ready made: it is a constant of the denoising step. Broadcast over rows. x may
    be wider than the modulation; the result has the modulation's dtype."""
    normed = F.layer_norm(x, (x.shape[-1],), None, None, eps)
    if x.dtype == shift.dtype:
        return torch.addcmul(shift, normed, scale_plus_one)
    return torch.addcmul(shift.to(x.dtype), normed, scale_plus_one.to(x.dtype)).to(shift.dtype)
