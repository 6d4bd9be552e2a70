# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Observations -> a model's inputs, by an adapter whose ``prepare`` may be in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.base import Adapter, StagedAdapter
from phyai_ros.engine.staging import upload
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import Observation


class Inlet:
    """operators: what the device's part is made of. staged: the adapter, None where its
    ``prepare`` is in one piece; its requests cannot be captured then."""

    def __init__(self, adapter: Adapter, device: torch.device, operators: Operators):
        self.device = device
        self._adapter, self._operators = adapter, operators
        self.staged = cast(StagedAdapter, adapter) if hasattr(adapter, "stage_images") else None

    def inputs(self, observations: Sequence[Observation]) -> Any:
        if self.staged is None:
            return self._adapter.prepare(observations)
        pictures = self.place(upload(self.staged.stage_images(observations), self.device))
        rest = upload(self.staged.stage_rest(observations), self.device)
        return self.staged.join(pictures, rest)

    def place(self, images: Any) -> Any:
        """images: on the device."""
        assert self.staged is not None
        return self.staged.place(images, self._operators)


def moved(request: Any, device: torch.device) -> Any:
    """(noise, guide) with its tensors on ``device``."""
    tensors, _ = flatten(request)
    if all(t.device.type == device.type for t in tensors):
        return request
    upwards = device.type != "cpu"  # the other way, nothing would tell when they have arrived
    return replace(request, iter([t.to(device, non_blocking=upwards) for t in tensors]))
