# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera images -> the square that the image tower sees, on the policy's device.

Both ecosystems scale to fit and pad the rest with black, centred. LeRobot resizes in float without
antialiasing; openpi's policy server resizes with Pillow, whose bilinear filter is antialiased,
separable, in fixed point and rounds to a byte after each axis: arithmetic that is repeated here
exactly, so a GPU gives Pillow's bytes.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F

_PILLOW_BITS = 22
"""Fixed-point bits of Pillow's resampling coefficients: 32 - 8 - 2."""


def fit(height: int, width: int, size: int) -> tuple[int, int]:
    """(height, width) scaled to lie within size x size; cut, not rounded, as both do."""
    ratio = max(width / size, height / size)
    return int(height / ratio), int(width / ratio)


def letterbox_float(images: torch.Tensor, size: int) -> torch.Tensor:
    """LeRobot: uint8 [N, H, W, 3] -> float32 [N, 3, size, size] in [-1, 1]."""
    x = images.permute(0, 3, 1, 2).float() / 255
    if x.shape[-2:] != (size, size):
        shape = fit(x.shape[-2], x.shape[-1], size)
        x = F.interpolate(x, shape, mode="bilinear", align_corners=False).clamp(0.0, 1.0)
        x = _pad(x, size)
    return x * 2.0 - 1.0


def letterbox_pillow(images: torch.Tensor, size: int) -> torch.Tensor:
    """openpi's policy server: uint8 [N, H, W, 3] -> float32 [N, 3, size, size] in [-1, 1]."""
    return pillow_bytes(images, size).permute(0, 3, 1, 2).float() / 255 * 2.0 - 1.0


def pillow_bytes(images: torch.Tensor, size: int) -> torch.Tensor:
    """uint8 [N, H, W, 3] -> uint8 [N, size, size, 3], as Pillow makes it."""
    if images.shape[1:3] == (size, size):
        return images
    height, width = fit(images.shape[1], images.shape[2], size)
    x = images.permute(0, 3, 1, 2).double()
    x = _to_byte(x @ _pillow_weights(images.shape[2], width, str(images.device)).T)
    x = _to_byte(_pillow_weights(images.shape[1], height, str(images.device)) @ x)
    return _pad(x, size).permute(0, 2, 3, 1).to(torch.uint8)


def _pad(x: torch.Tensor, size: int) -> torch.Tensor:
    top, left = (size - x.shape[-2]) // 2, (size - x.shape[-1]) // 2
    return F.pad(x, (left, size - x.shape[-1] - left, top, size - x.shape[-2] - top))


def _to_byte(x: torch.Tensor) -> torch.Tensor:
    """Fixed point -> whole bytes, still in float64, which holds these integers exactly."""
    return torch.floor((x + (1 << (_PILLOW_BITS - 1))) / (1 << _PILLOW_BITS)).clamp_(0, 255)


@lru_cache(maxsize=32)
def _pillow_weights(source: int, target: int, device: str) -> torch.Tensor:
    """float64 [target, source] whole numbers: Pillow's triangle filter of one axis."""
    if source == target:  # Pillow skips an axis that does not change
        return torch.eye(source, dtype=torch.float64, device=device) * (1 << _PILLOW_BITS)
    scale = source / target
    support = max(scale, 1.0)
    centre = (torch.arange(target, dtype=torch.float64) + 0.5) * scale
    first = (centre - support + 0.5).trunc().clamp_min(0)
    last = (centre + support + 0.5).trunc().clamp_max(source)
    pixel = torch.arange(source, dtype=torch.float64)
    weight = (1 - ((pixel - centre[:, None] + 0.5) / support).abs()).clamp_min(0)
    weight = weight * ((pixel >= first[:, None]) & (pixel < last[:, None]))
    weight = weight / weight.sum(1, keepdim=True)
    return torch.floor(weight * (1 << _PILLOW_BITS) + 0.5).to(device)
