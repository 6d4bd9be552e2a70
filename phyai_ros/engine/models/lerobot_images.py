# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera images of a LeRobot checkpoint: float arithmetic on the policy's device."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from phyai_ros.engine.models.lerobot_normalisation import Normalisation
from phyai_ros.engine.types import PolicyError


def planes(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [N, H, W, 3] -> float32 [N, 3, H, W] in [0, 1]."""
    return pixels.permute(0, 3, 1, 2).float() / 255


def check_size(camera: str, image: np.ndarray, expected: tuple[int, int]) -> None:
    """Raises PolicyError unless the image is uint8 [height, width, 3] of this (height, width). For
    policies that do not resize: their features depend on the size they were trained with."""
    if image.shape != (*expected, 3) or image.dtype != np.uint8:
        raise PolicyError(
            f"camera {camera!r}: expected uint8 {[*expected, 3]} (height, width, RGB), the size "
            f"the policy was trained with; found {image.dtype} {list(image.shape)}"
        )


class ImageNormaliser:
    """LeRobot's normalisation of a VISUAL feature, on a device. Statistics are one a channel."""

    def __init__(self, given: Normalisation, device: torch.device):
        self._mode = given.mode
        self.identity = given.mode == "IDENTITY"
        stats = {
            name: torch.from_numpy(value).to(device).reshape(-1, 1, 1)
            for name, value in given.statistics.items()
        }
        if given.mode == "MEAN_STD":
            self._low, self._span = stats["mean"], stats["std"] + given.eps
        elif given.mode != "IDENTITY":
            names = {"MIN_MAX": ("min", "max"), "QUANTILES": ("q01", "q99")}
            low, high = names.get(given.mode, ("q10", "q90"))
            span = stats[high] - stats[low]
            self._low = stats[low]
            self._span = torch.where(span == 0, torch.full_like(span, given.eps), span)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """float32 [..., 3, H, W] in [0, 1] -> normalised."""
        if self._mode == "IDENTITY":
            return images
        if self._mode == "MEAN_STD":
            return (images - self._low) / self._span
        return 2 * (images - self._low) / self._span - 1


def fit_left_top(images: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """float [N, 3, h, w] scaled to lie within height x width (bilinear, no antialiasing), black
    above and to the left."""
    h, w = images.shape[-2:]
    ratio = max(w / width, h / height)
    size = int(h / ratio), int(w / ratio)
    scaled = F.interpolate(images, size, mode="bilinear", align_corners=False)
    return F.pad(scaled, (width - size[1], 0, height - size[0], 0))


def resize(images: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """float [..., h, w] -> bilinear with antialiasing; a size that is already right is kept."""
    if images.shape[-2:] == (height, width):
        return images
    flat = images.reshape(-1, *images.shape[-3:])
    out = F.interpolate(flat, (height, width), mode="bilinear", align_corners=False, antialias=True)
    return out.reshape(*images.shape[:-2], height, width)


def centre_crop(images: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """images [..., H, W] -> the central window [..., height, width]; half a pixel of offset rounds
    to even."""
    top = round((images.shape[-2] - height) / 2)
    left = round((images.shape[-1] - width) / 2)
    return images[..., top : top + height, left : left + width]
