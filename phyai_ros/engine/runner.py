# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Runs a model family: the order of work, what is computed once, and the stage times.

Once a load: ``constants``. Once a request: image tokens and ``prefix``. Per denoising step:
``predict`` alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.models.base import Adapter, CommittingModel
from phyai_ros.engine.types import ActionChunk, Observation, PolicyError


class StageClock:
    """Wall time between marks: on the host, or by events on a CUDA stream so that marking does
    not make the host wait."""

    def __init__(self, device: torch.device):
        self._cuda = device.type == "cuda"
        self._marks: list[tuple[str, Any]] = []
        self.mark("start")

    def mark(self, stage: str) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append((stage, event))
        else:
            self._marks.append((stage, time.perf_counter()))

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds since the mark before it. Waits for the last mark."""
        if self._cuda:
            self._marks[-1][1].synchronize()
            return {
                stage: before.elapsed_time(after) / 1e3
                for (_, before), (stage, after) in zip(self._marks, self._marks[1:], strict=False)
            }
        return {
            stage: after - before
            for (_, before), (stage, after) in zip(self._marks, self._marks[1:], strict=False)
        }


class Runner:
    """One loaded adapter on one device."""

    def __init__(self, adapter: Adapter, device: torch.device):
        self.adapter = adapter
        self.device = device
        self._solve = solver.resolve(adapter.solver)
        self.refresh()

    def refresh(self) -> None:
        """Compute the constants again; needed only if weights were changed after loading."""
        with torch.no_grad():  # not inference mode: a guide may differentiate through them
            self.constants = self.adapter.model.constants(self.adapter.spec.denoising_steps)

    def run(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None = None,
    ) -> list[ActionChunk]:
        """noise: float32 ``adapter.noise_shape(batch)``, on the runner's device."""
        differentiates = guide is not None and guide.differentiates
        with torch.no_grad() if differentiates else torch.inference_mode():
            return self._run(observations, noise, guide)

    def _run(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None,
    ) -> list[ActionChunk]:
        adapter, model = self.adapter, self.adapter.model
        clock = StageClock(self.device)
        inputs = adapter.prepare(observations)
        clock.mark("preprocess")
        features = model.vision(inputs)
        clock.mark("vision")
        prefix = model.prefix(inputs, features)
        if guide is not None and guide.committed is not None:
            prefix = cast(CommittingModel, model).commit(prefix, guide.committed)
        clock.mark("prefix")
        constants = self.constants

        def predict(x: torch.Tensor, step: int) -> torch.Tensor:
            return model.predict(x, step, prefix, constants)

        x = self._solve(predict, noise, adapter.spec.denoising_steps, guide)
        clock.mark("solver")
        actions = adapter.decode(x, observations)
        normalised = x.float().cpu().numpy()
        clock.mark("convert")
        stages = clock.seconds()
        if not all(np.isfinite(a).all() for a in actions):
            raise PolicyError(
                f"{adapter.spec.checkpoint}: the policy answered with non-finite actions"
            )
        return [
            ActionChunk(actions=a, normalised=n, stages=stages)
            for a, n in zip(actions, normalised, strict=True)
        ]
