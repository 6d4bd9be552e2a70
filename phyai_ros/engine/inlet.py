# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Observations -> a model's inputs, by an adapter whose ``prepare`` may be in two parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from phyai_ros.engine.layers.select import Operators
from phyai_ros.engine.models.base import Adapter, StagedAdapter
from phyai_ros.engine.staging import upload
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import Observation


class Inlet:
    """operators: what the device's part is made of."""

    def __init__(self, adapter: Adapter, device: torch.device, operators: Operators):
        self.device = device
        self._adapter, self._operators = adapter, operators
        self._staged = cast(StagedAdapter, adapter) if hasattr(adapter, "stage") else None

    def inputs(self, observations: Sequence[Observation]) -> Any:
        if self._staged is None:
            return self._adapter.prepare(observations)
        return self.place(upload(self._staged.stage(observations), self.device))

    def stage(self, observations: Sequence[Observation]) -> Any:
        """The host's part, None where the adapter has no such parts."""
        return None if self._staged is None else self._staged.stage(observations)

    def place(self, staged: Any) -> Any:
        assert self._staged is not None
        return self._staged.place(staged, self._operators)


def moved(request: Any, device: torch.device) -> Any:
    """(noise, guide) with its tensors on ``device``."""
    tensors, _ = flatten(request)
    if all(t.device.type == device.type for t in tensors):
        return request
    upwards = device.type != "cpu"  # the other way, nothing would tell when they have arrived
    return replace(request, iter([t.to(device, non_blocking=upwards) for t in tensors]))
