# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A camera image -> the square that the image tower sees, on the policy's device.

Both ecosystems scale to fit and pad the rest with black, centred. LeRobot resizes in float without
antialiasing; openpi's policy server resizes bytes with Pillow.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from phyai_ros.engine.image import pil_bilinear


def fit(height: int, width: int, size: int) -> tuple[int, int]:
    """(height, width) scaled to lie within size x size; cut, not rounded, as both do."""
    ratio = max(width / size, height / size)
    return int(height / ratio), int(width / ratio)


def letterbox_float(image: torch.Tensor, size: int) -> torch.Tensor:
    """LeRobot: uint8 [..., 3, H, W] -> float32 [..., 3, size, size] in [-1, 1]."""
    x = image.float() / 255
    height, width = x.shape[-2:]
    if (height, width) != (size, size):
        shape = fit(height, width, size)
        flat = x.reshape(-1, *x.shape[-3:])
        y = F.interpolate(flat, shape, mode="bilinear", align_corners=False)
        x = _pad(y.clamp(0.0, 1.0), size).reshape(*x.shape[:-2], size, size)
    return x * 2.0 - 1.0


def letterbox_pillow(image: torch.Tensor, size: int) -> torch.Tensor:
    """openpi's policy server: uint8 [..., 3, H, W] -> float32 [..., 3, size, size] in [-1,
    1]."""
    return pillow_bytes(image, size).float() / 255 * 2.0 - 1.0


def pillow_bytes(image: torch.Tensor, size: int) -> torch.Tensor:
    """uint8 [..., 3, H, W] -> uint8 [..., 3, size, size], openpi's very bytes."""
    height, width = fit(image.shape[-2], image.shape[-1], size)
    return _pad(pil_bilinear(image, height, width), size)


def _pad(x: torch.Tensor, size: int) -> torch.Tensor:
    top, left = (size - x.shape[-2]) // 2, (size - x.shape[-1]) // 2
    return F.pad(x, (left, size - x.shape[-1] - left, top, size - x.shape[-2] - top))
