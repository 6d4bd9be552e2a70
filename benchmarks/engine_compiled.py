# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The reference path through torch.compile, uncaptured and captured in a graph.

``python benchmarks/engine_compiled.py pi05_48``, a row for benchmarks/results/engine.jsonl; needs a
CUDA GPU. Compiling takes minutes: of several of these programs with the same ``--lock``, started
together, all compile at once, and none is timed while another compiles.
"""

from __future__ import annotations

import argparse
import fcntl
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.cuda_graph import Graphs
from phyai_ros.engine.stage_clock import StageClock


class Compiled:
    """An adapter's model, each stage compiled for its shapes. What belongs to a step is sliced in
    front of the call, so that one step's code serves all. backend: of torch.compile."""

    def __init__(self, adapter: Any, backend: str = "inductor"):
        model = adapter.model
        self._steps = adapter.spec.denoising_steps
        self._solve = solver.resolve(adapter.solver)
        self._constants = model.constants(self._steps)

        def predict(x: torch.Tensor, prefix: Any, constants: Any) -> torch.Tensor:
            return model.predict(x, 0, prefix, constants)

        self._vision, self._prefix, self._predict = (
            torch.compile(f, dynamic=False, backend=backend)
            for f in (model.vision, model.prefix, predict)
        )

    def _of(self, step: int) -> Any:
        given = self._constants
        if isinstance(given, (torch.Tensor, list)):
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

    def __call__(self, request: Any) -> torch.Tensor:
        """-> the actions."""
        *_, (_, actions) = self.stages(request)
        return actions


@torch.no_grad()
def measure(
    adapter: Any, device: torch.device, observations: Any, noise: torch.Tensor, runs: int, lock: Any
) -> tuple[dict[str, Any], torch.Tensor]:
    """-> p50 of both ways and seconds of compiling; and the answer. lock: an open file, or None."""
    compiled = Compiled(adapter)
    request = (adapter.prepare(observations), noise.to(device), None)
    begin = time.perf_counter()
    answer = compiled(request).float().cpu()
    found: dict[str, Any] = {"torch_compile_s": round(time.perf_counter() - begin, 1)}
    print("compiled in", found["torch_compile_s"], "s", flush=True)
    _lock(lock, fcntl.LOCK_UN)
    _lock(lock, fcntl.LOCK_EX)
    found["torch_compile_ms"] = _p50(lambda: compiled(request), device, runs)
    try:
        graph, _ = Graphs(device, nullcontext).record(lambda: compiled(request))
        found["torch_compile_captured_ms"] = _p50(graph.replay, device, runs)
    except RuntimeError as refused:  # a copy from the host, say: the other time stands
        found["torch_compile_capture_refused"] = str(refused)[:500]
    return found, answer


def _lock(file: Any, how: int) -> None:
    if file is not None:
        fcntl.flock(file, how)


def _p50(function: Any, device: torch.device, runs: int) -> float:
    """Milliseconds."""
    times = []
    for _ in range(runs + 5):
        clock = StageClock(device)
        clock.mark("begin")
        function()
        clock.mark("all")
        times.append(1e3 * clock.seconds()["all"])
    return round(float(np.percentile(times[5:], 50)), 2)


def main() -> None:
    import engine_model
    import record
    from engine_refine import NOTHING

    from phyai_ros.engine.runner import Runner

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=engine_model.WORKS)
    parser.add_argument("--runs", type=int, default=60, help="timed requests")
    parser.add_argument("--lock", type=Path, help="a file of those that are started together")
    parser.add_argument("--out", type=Path, help="folder of the row; default benchmarks/results")
    options = parser.parse_args()
    device = torch.device("cuda")
    lock = None if options.lock is None else options.lock.open("w")
    _lock(lock, fcntl.LOCK_SH)
    adapter, batch = engine_model.build(options.work, device)
    observations = [NOTHING] * batch
    noise = engine_model.noise_of(adapter, batch, device)
    plain = engine_model.answers(Runner(adapter, device, "reference"), observations, noise)
    found, answer = measure(adapter, device, observations, noise, options.runs, lock)
    values = {
        "work": options.work, "batch": batch, "gpu": torch.cuda.get_device_name(), **found,
        "torch_compile_vs_reference": engine_model.error(answer, plain),
    }  # fmt: skip
    record.save("engine.jsonl", record.row("engine", values), options.out)
    print(values)


if __name__ == "__main__":
    main()
