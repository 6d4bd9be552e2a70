# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The reference path through torch.compile, uncaptured and captured in a graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.cuda_graph import Graphs
from phyai_ros.engine.stage_clock import StageClock


class Compiled:
    """An adapter's model, each stage compiled for its shapes. What belongs to a step is sliced in
    front of the call, so that one step's code serves all."""

    def __init__(self, adapter: Any):
        model = adapter.model
        self._steps = adapter.spec.denoising_steps
        self._solve = solver.resolve(adapter.solver)
        self._constants = model.constants(self._steps)
        self._vision = torch.compile(model.vision, dynamic=False)
        self._prefix = torch.compile(model.prefix, dynamic=False)
        self._predict = torch.compile(
            lambda x, prefix, constants: model.predict(x, 0, prefix, constants), dynamic=False
        )

    def _of(self, step: int) -> Any:
        given = self._constants
        if isinstance(given, torch.Tensor):
            return given[step : step + 1]
        if isinstance(given, list):
            return given[step : step + 1]
        return replace(given, time=given.time[step : step + 1])

    def stages(self, request: Any) -> Iterator[tuple[str, Any]]:
        inputs, noise, guide = request
        features = self._vision(inputs)
        yield "vision", features
        prefix = self._prefix(inputs, features)
        yield "prefix", prefix

        def predict(x: torch.Tensor, step: int) -> torch.Tensor:
            return self._predict(x, prefix, self._of(step))

        yield "solver", self._solve(predict, noise, self._steps, guide)


@torch.no_grad()
def measure(
    adapter: Any, device: torch.device, observations: Any, noise: torch.Tensor, runs: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """-> p50 of both ways and seconds of compiling; and the answer."""
    compiled = Compiled(adapter)
    request = (adapter.prepare(observations), noise, None)
    begin = time.perf_counter()
    answer = _last(compiled.stages(request))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    eager = _p50(lambda: _last(compiled.stages(request)), device, runs)
    graph, _ = Graphs(device, nullcontext).record(lambda: _last(compiled.stages(request)))
    captured = _p50(graph.replay, device, runs)
    found = {
        "torch_compile_ms": round(eager, 2),
        "torch_compile_captured_ms": round(captured, 2),
        "torch_compile_s": round(seconds, 1),
    }
    return found, answer.float().cpu()


def _last(stages: Iterator[tuple[str, Any]]) -> Any:
    return [result for _, result in stages][-1]


def _p50(function: Any, device: torch.device, runs: int) -> float:
    times = []
    for _ in range(runs + 5):
        clock = StageClock(device)
        clock.mark("begin")
        function()
        clock.mark("all")
        times.append(1e3 * clock.seconds()["all"])
    return float(np.percentile(times[5:], 50))
