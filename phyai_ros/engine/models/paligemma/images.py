# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A camera image -> the square that the image tower sees, on any device.

Both ecosystems scale to fit and pad the rest with black, centred. LeRobot resizes in float without
antialiasing; openpi's policy server resizes bytes with Pillow.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from phyai_ros.engine.image import pil_bilinear
from phyai_ros.engine.kernels import letterbox


def letterbox_float(image: torch.Tensor, size: int) -> torch.Tensor:
    """LeRobot: uint8 [..., 3, H, W] -> float32 [..., 3, size, size] in [-1, 1]."""
    flat = image.movedim(-3, -1).reshape(-1, *image.shape[-2:], 3)
    return letterbox.reference(flat, size, size).reshape(*image.shape[:-2], size, size)


def pillow_bytes(image: torch.Tensor, size: int) -> torch.Tensor:
    """uint8 [..., 3, H, W] -> uint8 [..., 3, size, size], openpi's very bytes."""
    height, width = letterbox.fit(image.shape[-2], image.shape[-1], size, size)
    top, left = letterbox.corner((height, width), size, size, centred=True)
    small = pil_bilinear(image, height, width)
    return F.pad(small, (left, size - width - left, top, size - height - top))
