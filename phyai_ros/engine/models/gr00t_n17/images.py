# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Raw camera images -> Qwen3-VL patches, on the policy's device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from phyai_ros.engine import image as resize
from phyai_ros.engine.models.gr00t_n17.backbone import VisionConfig
from phyai_ros.engine.models.gr00t_n17.vision import Grid
from phyai_ros.engine.types import PolicyError

_MIN_PIXELS = 65536
_MAX_PIXELS = 16777216


@dataclass(frozen=True)
class ImageRules:
    """The evaluation transform of processor_config.json and the limits of the backbone's
    preprocessor_config.json. keep_aspect: the albumentations variant (OpenCV area, shortest edge);
    else the torchvision one (bicubic, to a square)."""

    target: tuple[int, int]
    crop: tuple[int, int] | None
    shortest_edge: int | None
    crop_fraction: float | None
    keep_aspect: bool
    letter_box: bool
    min_pixels: int = _MIN_PIXELS
    max_pixels: int = _MAX_PIXELS

    @staticmethod
    def parse(
        kwargs: Mapping[str, Any], preprocessor: Mapping[str, Any] | None, where: str
    ) -> ImageRules:
        """kwargs: processor_kwargs. Raises PolicyError naming ``where`` and the key."""
        mean = list((preprocessor or {}).get("image_mean", (0.5,) * 3))
        std = list((preprocessor or {}).get("image_std", (0.5,) * 3))
        if mean != [0.5] * 3 or std != [0.5] * 3:
            file = "preprocessor_config.json"
            raise PolicyError(
                f"{where}: {file} beside it: image_mean, image_std: expected 0.5, found {mean}, "
                f"{std}"
            )
        size = (preprocessor or {}).get("size") or {}
        fraction = kwargs.get("crop_fraction")
        edge = kwargs.get("shortest_image_edge")
        target, crop = _pair(kwargs, "image_target_size", where), None
        if target is None:  # the references then take the published geometry, and all of it
            target, crop, fraction, edge = (256, 256), (230, 230), None, None
        else:
            crop = _pair(kwargs, "image_crop_size", where)
        return ImageRules(
            target=target,
            crop=crop,
            shortest_edge=None if edge is None else int(edge),
            crop_fraction=None if fraction is None else float(fraction),
            keep_aspect=bool(kwargs.get("use_albumentations", False)),
            letter_box=bool(kwargs.get("letter_box_transform", False)),
            min_pixels=int(size.get("shortest_edge") or _MIN_PIXELS),
            max_pixels=int(size.get("longest_edge") or _MAX_PIXELS),
        )

    def transform(self, image: torch.Tensor) -> torch.Tensor:
        """uint8 [..., 3, H, W] -> uint8 [..., 3, h, w]: pad to a square, resize, centre crop,
        resize."""
        if self.letter_box:
            image = resize.pad_to_square(image)
        edge = self.shortest_edge or self.target[0]
        fraction = self.crop_fraction
        if fraction is None and self.crop is not None:
            fraction = self.crop[0] / float(self.target[0])
        if self.keep_aspect:
            image = _shortest_edge(image, edge)
            image = _crop(image, fraction, math.floor)
            return _shortest_edge(image, edge)
        image = resize.torchvision_resize(image, edge, edge)
        image = _crop(image, fraction, round)
        return resize.torchvision_resize(image, *self.target)

    def smart_size(self, height: int, width: int, factor: int) -> tuple[int, int]:
        """Qwen's size: multiples of ``factor`` near the image's, within the pixel limits."""
        if max(height, width) / min(height, width) > 200:
            raise PolicyError(f"image {height} x {width}: aspect ratio over 200")
        h, w = (max(1, round(n / factor)) * factor for n in (height, width))
        if h * w > self.max_pixels:
            beta = math.sqrt(height * width / self.max_pixels)
            h, w = (max(factor, math.floor(n / beta / factor) * factor) for n in (height, width))
        elif h * w < self.min_pixels:
            beta = math.sqrt(self.min_pixels / (height * width))
            h, w = (math.ceil(n * beta / factor) * factor for n in (height, width))
        return h, w


def grid_of(shape: tuple[int, int], rules: ImageRules, vision: VisionConfig) -> Grid:
    """The patch grid of a transformed image."""
    h, w = rules.smart_size(*shape, vision.patch * vision.merge)
    return h // vision.patch, w // vision.patch


def patches_of(
    images: torch.Tensor, rules: ImageRules, vision: VisionConfig
) -> tuple[torch.Tensor, Grid]:
    """uint8 [N, H, W, 3] -> float32 patches [N, patches, channels*temporal*patch^2] in [-1, 1],
    each merge group contiguous and each image twice along time; and the grid of one image."""
    small = rules.transform(images.movedim(-1, -3))
    grid = grid_of((small.shape[-2], small.shape[-1]), rules, vision)
    small = resize.torchvision_resize(small, grid[0] * vision.patch, grid[1] * vision.patch)
    return _patchify((small.float() - 127.5) / 127.5, grid, vision), grid


def _patchify(images: torch.Tensor, grid: Grid, vision: VisionConfig) -> torch.Tensor:
    n, h, w, m, p = len(images), *grid, vision.merge, vision.patch
    cells = images.reshape(n, 3, h // m, m, p, w // m, m, p).permute(0, 2, 5, 3, 6, 1, 4, 7)
    flat = cells.reshape(n, h * w, 3, 1, p * p)
    return flat.expand(-1, -1, -1, vision.temporal, -1).reshape(n, h * w, -1)


def _shortest_edge(image: torch.Tensor, edge: int) -> torch.Tensor:
    h, w = image.shape[-2:]
    if min(h, w) == edge:
        return image
    scale = edge / float(min(h, w))
    size = (max(1, round(h * scale)), max(1, round(w * scale)))
    return resize.cv2_area(image, *size)


def _crop(image: torch.Tensor, fraction: float | None, rounding: Any) -> torch.Tensor:
    if fraction is None or not 0.0 < fraction < 1.0:
        return image
    h, w = (max(1, int(rounding(n * fraction))) for n in image.shape[-2:])
    return resize.centre_crop(image, h, w)


def _pair(kwargs: Mapping[str, Any], key: str, where: str) -> tuple[int, int] | None:
    value = kwargs.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PolicyError(f"{where}: {key}: expected [height, width], found {value!r}")
    return int(value[0]), int(value[1])
