# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's crop-and-resize step of a preprocessor, for policies that else take one size only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from phyai_ros.engine.fields import LONGEST_SIDE as LONGEST
from phyai_ros.engine.models.lerobot import Layout
from phyai_ros.engine.models.lerobot_images import resize
from phyai_ros.engine.types import PolicyError


class CropResize:
    """LeRobot's ``image_crop_resize_processor``: a checkpoint that has it takes images of any size
    that its windows lie in. crop: camera key -> (top, left, height, width). size: (height, width)
    after it, None for as cropped."""

    STEP = "image_crop_resize_processor"

    def __init__(
        self, crop: Mapping[str, tuple[int, int, int, int]], size: tuple[int, int] | None
    ) -> None:
        self._crop = dict(crop)
        self._size = size

    @classmethod
    def of(cls, layout: Layout) -> CropResize | None:
        """None where the preprocessor has no such step. Raises PolicyError for what it cannot
        mean."""
        step = layout.preprocessor.find(cls.STEP)
        if step is None:
            return None
        names = [s.name for s in layout.preprocessor.steps]
        where = f"{layout.preprocessor.file}: {cls.STEP}"
        if "normalizer_processor" in names[: names.index(cls.STEP)]:
            raise PolicyError(f"{where}: expected before normalizer_processor, found after it")
        crop = step.config.get("crop_params_dict") or {}
        size = step.config.get("resize_size")
        for key, window in crop.items():
            if key not in layout.cameras:
                raise PolicyError(
                    f"{where}.crop_params_dict: expected cameras of {list(layout.cameras)}, "
                    f"found {key!r}"
                )
            if not _whole(window, 4) or min(window[:2]) < 0 or min(window[2:]) < 1:
                raise PolicyError(
                    f"{where}.crop_params_dict.{key}: expected [top, left, height, width], "
                    f"found {window!r}"
                )
        if size is not None and (not _whole(size, 2) or not 1 <= min(size) <= max(size) <= LONGEST):
            raise PolicyError(
                f"{where}.resize_size: expected [height, width] of 1 to {LONGEST} pixels, found "
                f"{size!r}"
            )
        return cls(
            {key: tuple(window) for key, window in crop.items()},
            tuple(size) if size is not None else None,
        )

    @property
    def least_sizes(self) -> dict[str, tuple[int, int]]:
        """Camera -> (height, width) of the smallest image that its window lies in."""
        return {
            camera: (top + height, left + width)
            for camera, (top, left, height, width) in self._crop.items()
        }

    def check(self, camera: str, images: Sequence[np.ndarray]) -> None:
        """Raises PolicyError where uint8 [h, w, 3] images of one camera are not of one size, or
        its window is not inside them."""
        sizes = {image.shape[:2] for image in images}
        if len(sizes) > 1:
            raise PolicyError(f"camera {camera!r}: expected one size a batch, found {sizes}")
        ((h, w),) = sizes
        top, left, height, width = self._crop.get(camera, (0, 0, h, w))
        if top + height > h or left + width > w:
            raise PolicyError(
                f"camera {camera!r}: expected at least {top + height} rows and "
                f"{left + width} columns, found {[h, w]}"
            )

    def __call__(self, camera: str, images: torch.Tensor) -> torch.Tensor:
        """float [N, 3, h, w] in [0, 1], checked -> [N, 3, height, width]."""
        if camera in self._crop:
            top, left, height, width = self._crop[camera]
            images = images[..., top : top + height, left : left + width]
        if self._size is not None:
            images = resize(images, *self._size)
        return images.clamp(0.0, 1.0)


def _whole(values: Any, count: int) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == count
        and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    )
