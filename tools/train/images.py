# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera pictures as the engine's preprocessing gives them to each model, still uint8."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.models.gr00t_n17.images import ImageRules

SIDES = {"gr00t": 128, "pi05": 140}
"""Side of the square picture each family's model sees."""


def prepare(family: str, picture: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] -> uint8 [3, side, side]."""
    if family == "gr00t":
        return _gr00t().transform(torch.from_numpy(picture).permute(2, 0, 1)).numpy()
    return _pi05(picture)


@lru_cache
def _gr00t() -> ImageRules:
    return ImageRules.isaac(image_settings(SIDES["gr00t"]), None, "gr00t")


def image_settings(side: int) -> dict[str, Any]:
    """processor_config.json's image keys: squeeze the whole picture to a square, cut nothing."""
    return {
        "image_crop_size": [side, side],
        "image_target_size": [side, side],
        "shortest_image_edge": None,
        "crop_fraction": None,
        "use_albumentations": False,
        "letter_box_transform": False,
        "image_interpolation": "bicubic",  # as lerobot's; Isaac-GR00T's own is bilinear
    }


def _pi05(picture: np.ndarray) -> np.ndarray:
    side = SIDES["pi05"]
    x = letterbox.reference(torch.from_numpy(picture)[None], side, side)[0]
    return ((x + 1) * 127.5).round().to(torch.uint8).numpy()
