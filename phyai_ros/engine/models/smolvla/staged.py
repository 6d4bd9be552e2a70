# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA's inputs on their way to the device, in the parts of ``base.StagedAdapter``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phyai_ros.engine.staging import Grouped


@dataclass(frozen=True)
class Images:
    """Camera bytes of each normalisation that occurs, placed as (slot, request), of ``batch``
    requests with ``slots`` used."""

    pictures: tuple[tuple[str, Grouped], ...]
    slots: int
    batch: int


@dataclass(frozen=True)
class Rest:
    """``SmolVlaInputs`` without the images. image_masks, mark_masks: bool [slots, B], the latter
    None where the config has no marks around images."""

    image_masks: Any
    mark_masks: Any
    tokens: Any
    token_mask: Any
    state: Any
