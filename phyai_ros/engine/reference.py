# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The path that hoists nothing: what every faster path is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.models.base import Adapter
from phyai_ros.engine.types import ActionChunk, Observation


class ReferenceRunner:
    """Same answers as ``runner.Runner``, with image tokens, prefix and constants computed anew in
    every denoising step, one request at a time: no cache that could be stale, no batch neighbour
    that could leak in."""

    def __init__(self, adapter: Adapter, device: torch.device):
        self.adapter = adapter
        self.device = device
        self._solve = solver.resolve(adapter.solver)

    @torch.inference_mode()
    def run(self, observations: Sequence[Observation], noise: torch.Tensor) -> list[ActionChunk]:
        """noise: float32 ``adapter.noise_shape(batch)``, on the device."""
        rows = noise.split(1)
        return [self._one(o, n) for o, n in zip(observations, rows, strict=True)]

    def _one(self, observation: Observation, noise: torch.Tensor) -> ActionChunk:
        adapter, model = self.adapter, self.adapter.model
        steps = adapter.spec.denoising_steps

        def predict(x: torch.Tensor, step: int) -> torch.Tensor:
            inputs = adapter.prepare([observation])
            prefix = model.prefix(inputs, model.vision(inputs))
            return model.predict(x, step, prefix, model.constants(steps))

        x = self._solve(predict, noise, steps, None)
        normalised = x.float().cpu().numpy()
        (actions,) = adapter.decode(normalised, [observation])
        return ActionChunk(np.asarray(actions), normalised[0])
