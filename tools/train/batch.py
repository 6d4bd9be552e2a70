# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a training step sees, and the augmentation between two renderers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """images uint8 [b, views, 3, s, s]; ids, valid [b, length]; state [b, n] normalised;
    chunk [b, horizon, n] normalised, or [b, delays, horizon, n], one for every number of rows that
    are decided; blocks, goal [b, ...] probe targets, standardised."""

    images: Tensor
    ids: Tensor
    valid: Tensor
    state: Tensor
    chunk: Tensor
    blocks: Tensor
    goal: Tensor


def augment(images: Tensor) -> Tensor:
    """uint8 -> float in [-1, 1] with random gain, offset, tint and noise.

    The training renderer (a GPU's) and the user's (Mesa) differ by small shading and edge effects;
    geometry is the same, so nothing here moves a pixel."""
    batch, views = images.shape[:2]
    x = images.float() / 127.5 - 1
    shape = (batch, views, 1, 1, 1)
    tint = (batch, views, 3, 1, 1)
    device = images.device
    gain = 1 + 0.12 * (torch.rand(shape, device=device) * 2 - 1)
    colour = 1 + 0.05 * (torch.rand(tint, device=device) * 2 - 1)
    offset = 0.10 * (torch.rand(shape, device=device) * 2 - 1)
    noise = 0.02 * torch.rand(shape, device=device) * torch.randn_like(x)
    return (x * gain * colour + offset + noise).clamp(-1, 1)
