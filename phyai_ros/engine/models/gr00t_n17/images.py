# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Raw camera images -> Qwen3-VL patches, on the policy's device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from phyai_ros.engine import image as resize
from phyai_ros.engine.fields import LONGEST_SIDE, flag, whole
from phyai_ros.engine.models.gr00t_n17.backbone import VisionConfig
from phyai_ros.engine.models.gr00t_n17.vision import Grid
from phyai_ros.engine.models.lerobot_images import centre_crop
from phyai_ros.engine.types import PolicyError

_MIN_PIXELS = 65536
_MAX_PIXELS = 16777216


@dataclass(frozen=True)
class ImageRules:
    """The evaluation transform of processor_config.json and the limits of the backbone's
    preprocessor_config.json. keep_aspect: the albumentations variant (OpenCV area, shortest
    ``edge``, ``crop_fraction`` of each side); else the torchvision one: to ``target`` by
    ``interpolation``, the ``window`` in its middle (Isaac-GR00T) or ``crop_fraction`` of it
    (lerobot), to ``target``. pixels: fewest and most that the backbone looks at."""

    target: tuple[int, int]
    edge: int
    crop_fraction: float | None
    keep_aspect: bool
    letter_box: bool
    interpolation: str = "bicubic"
    window: tuple[int, int] | None = None
    pixels: tuple[int, int] = (_MIN_PIXELS, _MAX_PIXELS)

    @staticmethod
    def lerobot(
        kwargs: Mapping[str, Any], preprocessor: Mapping[str, Any] | None, where: str
    ) -> ImageRules:
        """kwargs: of lerobot's encoding step, which has the names of Isaac-GR00T's
        processor_kwargs. Raises PolicyError naming ``where`` and the key."""
        fraction = kwargs.get("crop_fraction")
        edge = kwargs.get("shortest_image_edge")
        target, crop = _pair(kwargs, "image_target_size", where), None
        if target is None:  # lerobot then takes the published geometry, and all of it
            target, crop, fraction, edge = (256, 256), (230, 230), None, None
        else:
            crop = _pair(kwargs, "image_crop_size", where)
        return ImageRules(
            target=target,
            edge=_edge(edge or target[0], where),
            crop_fraction=_fraction(fraction, crop, target),
            keep_aspect=flag(kwargs, "use_albumentations", False, where),
            letter_box=flag(kwargs, "letter_box_transform", False, where),
            pixels=_pixel_limits(preprocessor, where),
        )

    @staticmethod
    def isaac(
        kwargs: Mapping[str, Any], preprocessor: Mapping[str, Any] | None, where: str
    ) -> ImageRules:
        """kwargs: processor_kwargs; absent keys have the defaults of Isaac-GR00T's class. Its
        torchvision variant crops a window of pixels and scales bilinearly, unless the checkpoint
        says otherwise (``image_interpolation``, a key of this project's). Raises PolicyError naming
        ``where`` and the key."""
        target = _pair(kwargs, "image_target_size", where)
        crop = _pair(kwargs, "image_crop_size", where)
        keep_aspect = flag(kwargs, "use_albumentations", False, where)
        fraction, edge = kwargs.get("crop_fraction", 0.95), kwargs.get("shortest_image_edge", 256)
        interpolation = kwargs.get("image_interpolation", "bilinear")
        if interpolation not in ("bilinear", "bicubic"):
            raise PolicyError(
                f"{where}: image_interpolation is {interpolation!r}; known: bilinear, bicubic"
            )
        if not keep_aspect or edge is None or fraction is None:
            for key, size in (("image_target_size", target), ("image_crop_size", crop)):
                if size is None:
                    raise PolicyError(f"{where}: {key}: expected [height, width], found None")
        side = _edge(edge or (target or (0,))[0], where)
        return ImageRules(
            target=target or (side, side),
            edge=side,
            crop_fraction=_fraction(fraction, crop, target),
            keep_aspect=keep_aspect,
            letter_box=flag(kwargs, "letter_box_transform", False, where),
            interpolation=interpolation,
            window=crop,
            pixels=_pixel_limits(preprocessor, where),
        )

    def transform(self, image: torch.Tensor) -> torch.Tensor:
        """uint8 [..., 3, H, W] -> uint8 [..., 3, h, w]: pad to a square, resize, centre crop,
        resize."""
        if self.letter_box:
            image = resize.pad_to_square(image)
        if self.keep_aspect:
            _check_aspect(image.shape[-2], image.shape[-1])
            image = _shortest_edge(image, self.edge)
            image = _crop(image, self.crop_fraction, math.floor)
            return _shortest_edge(image, self.edge)
        if self.window is None:
            image = resize.torchvision_resize(image, self.edge, self.edge, self.interpolation)
            image = _crop(image, self.crop_fraction, round)
        else:
            image = resize.torchvision_resize(image, *self.target, self.interpolation)
            image = centre_crop(image, *self.window)
        return resize.torchvision_resize(image, *self.target, self.interpolation)

    def smart_size(self, height: int, width: int, factor: int) -> tuple[int, int]:
        """Qwen's size: multiples of ``factor`` near the image's, within the pixel limits."""
        _check_aspect(height, width)
        h, w = (max(1, round(n / factor)) * factor for n in (height, width))
        fewest, most = self.pixels
        if h * w > most:
            beta = math.sqrt(height * width / most)
            h, w = (max(factor, math.floor(n / beta / factor) * factor) for n in (height, width))
        elif h * w < fewest:
            beta = math.sqrt(fewest / (height * width))
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


def _check_aspect(height: int, width: int) -> None:
    """Qwen's own limit; before the first resize, which would keep the shape and make it large."""
    if max(height, width) / min(height, width) > 200:
        raise PolicyError(f"image {height} x {width}: aspect ratio over 200")


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


def _edge(given: Any, where: str) -> int:
    return whole(given, f"{where}: shortest_image_edge", LONGEST_SIDE)


def _fraction(
    given: Any, crop: tuple[int, int] | None, target: tuple[int, int] | None
) -> float | None:
    """Of each side what a crop leaves: as given, else by the two sizes, None for all of it."""
    if given is not None:
        return float(given)
    return None if crop is None or target is None else crop[0] / float(target[0])


def _pixel_limits(preprocessor: Mapping[str, Any] | None, where: str) -> tuple[int, int]:
    """Of preprocessor_config.json, whose mean and deviation are checked to be the backbone's; of
    none, the published backbone's. What a file leaves out official code does not take from there,
    but from what is usual with another model (CLIP's mean, Qwen2-VL's sizes)."""
    if preprocessor is None:
        return _MIN_PIXELS, _MAX_PIXELS
    where = f"{where}: preprocessor_config.json beside it"
    mean, std = (preprocessor.get(key) for key in ("image_mean", "image_std"))
    if mean != [0.5] * 3 or std != [0.5] * 3:
        raise PolicyError(
            f"{where}: image_mean, image_std: expected 0.5 for each colour, found {mean}, {std}"
        )
    for key in ("min_pixels", "max_pixels"):
        if preprocessor.get(key) is not None:
            raise PolicyError(
                f"{where}: {key}: expected none beside size.shortest_edge and size.longest_edge, "
                f"found {preprocessor[key]!r}"
            )
    size = preprocessor.get("size")
    held = size if isinstance(size, Mapping) else {}
    fewest, most = (
        whole(held.get(key), f"{where}: size.{key}") for key in ("shortest_edge", "longest_edge")
    )
    return fewest, most


def _pair(kwargs: Mapping[str, Any], key: str, where: str) -> tuple[int, int] | None:
    value = kwargs.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PolicyError(f"{where}: {key}: expected [height, width], found {value!r}")
    height, width = (whole(side, f"{where}: {key}", LONGEST_SIDE) for side in value)
    return height, width
