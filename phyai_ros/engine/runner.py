# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Runs a model family: the order of work, what is computed once, and the stage times.

Once a load: ``constants``. Once a request: image tokens and ``prefix``. Per denoising step:
``predict`` alone. On a CUDA device, requests of a captured shape are replayed (``captured.py``)
and, in half precision, run a family's fused form where it has one; both after ``capture``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.captured import Asked, Captured
from phyai_ros.engine.inlet import Inlet, moved
from phyai_ros.engine.kernels.flow_step import Step
from phyai_ros.engine.layers.fp8 import select_fp8
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.select import FastOperators, select
from phyai_ros.engine.models.base import Adapter, CommittingModel, Model
from phyai_ros.engine.quantize import quantized
from phyai_ros.engine.stage_clock import StageClock
from phyai_ros.engine.types import ActionChunk, Observation, PolicyError

SELECTORS = ("auto", "reference")


@dataclass(frozen=True)
class _Given:
    """An ``Asked`` that is fine as it is."""

    noise: torch.Tensor
    guide: solver.Guide | None

    def check(self) -> None: ...

    def rest(self) -> tuple[torch.Tensor, solver.Guide | None]:
        return self.noise, self.guide


class Runner:
    """One loaded adapter on one device.

    selector: "auto" or "reference", which forces the plain torch path, uncaptured.
    """

    def __init__(self, adapter: Adapter, device: torch.device, selector: str = "auto"):
        if selector not in SELECTORS:
            raise PolicyError(f"selector {selector!r} is not one; known: {', '.join(SELECTORS)}")
        self.adapter = adapter
        self.device = device
        self.selector = selector
        self._solve = solver.resolve(adapter.solver)
        self._here = _current(device)
        self._captured: Captured | None = None
        with self._here():
            self._clock = StageClock(device)
        self.refresh()

    @property
    def buckets(self) -> int:
        """Structures of requests that were captured."""
        return 0 if self._captured is None else len(self._captured)

    @property
    def replayed(self) -> int:
        """Requests answered by a replay."""
        return 0 if self._captured is None else self._captured.replayed

    def refresh(self) -> None:
        """Compute the constants again; needed only if weights were changed after loading. What was
        captured is dropped with them."""
        model = self.adapter.model
        self.release()
        with self._here(), torch.no_grad():  # not inference mode: a guide may differentiate
            self.operators = self._operators(model)
            self._inlet = Inlet(self.adapter, self.device, self.operators)
            fuse = getattr(model, "fused", None)
            self.model: Model = model
            if fuse is not None and isinstance(self.operators, FastOperators):
                self.model = fuse(self.operators)
            self._commits = hasattr(self.model, "commit")
            self._reference_constants = model.constants(self.adapter.spec.denoising_steps)
            self.constants = self._reference_constants
            if self.model is not model:
                self.constants = self.model.constants(self.adapter.spec.denoising_steps)

    def _operators(self, model: Any) -> Operators:
        dtypes = {p.dtype for p in model.parameters()} if hasattr(model, "parameters") else set()
        half = next((d for d in dtypes if d in (torch.bfloat16, torch.float16)), torch.float32)
        chosen = select_fp8 if quantized(model) else select
        return chosen(self.device, half, self.selector)

    # -- capture ---------------------------------------------------------------------------------
    def capture(self, observation: Observation, batches: Sequence[int] | None = (1,)) -> int:
        """Capture what requests like this one need: every length the adapter names, each batch
        size, with and without elementwise guidance. Nothing is captured, tuned or compiled
        afterwards. batches: None takes as many of ``captured.BATCHES`` as the device has room for.
        -> the buckets there are; 0 where there is no CUDA device or a family cannot be captured,
        which then runs as before."""
        fixed = self.selector == "reference" or self._inlet.staged is None
        if self.device.type != "cuda" or fixed:
            return 0
        with self._here():
            if self._captured is None:
                self._captured = Captured(
                    self.adapter, self._inlet, self.operators, commits=self._commits
                )
            self._captured.add(observation, batches, self.model, self._solved)
        return self.buckets

    def release(self) -> None:
        """Drop what was captured."""
        if self._captured is not None:
            self._captured.forget()
        self._captured = None

    def _stages(self, request: Any) -> Iterator[tuple[str, Any]]:
        """The device's work for (inputs, noise, guide), stage by stage."""
        inputs, noise, guide = request
        features = self.model.vision(inputs)
        yield "vision", features
        prefix = self.model.prefix(inputs, features)
        yield "prefix", prefix
        yield "solver", self._solved(prefix, noise, guide)

    def _solved(self, prefix: Any, noise: torch.Tensor, guide: solver.Guide | None) -> torch.Tensor:
        if guide is not None and guide.committed is not None:
            prefix = cast(CommittingModel, self.model).commit(prefix, guide.committed)
        return self._loop(self.model, self.constants, prefix, noise, guide)

    def _loop(
        self,
        model: Model,
        constants: Any,
        prefix: Any,
        noise: torch.Tensor,
        guide: solver.Guide | None,
    ) -> torch.Tensor:
        def predict(x: torch.Tensor, step: int) -> torch.Tensor:
            return model.predict(x, step, prefix, constants)

        steps = self.adapter.spec.denoising_steps
        signs: dict[Any, float] = {solver.flow_forward: 1.0, solver.flow_backward: -1.0}
        sign = signs.get(self._solve)
        if sign is not None and model is self.model and type(guide) is solver.RtcIdentity:
            return self._identity_flow(predict, noise, steps, guide, sign, prefix)
        return self._solve(predict, noise, steps, guide)

    def _identity_flow(
        self,
        predict: solver.Predict,
        x: torch.Tensor,
        steps: int,
        guide: solver.RtcIdentity,
        sign: float,
        prefix: Any,
    ) -> torch.Tensor:
        """``flow_forward`` (sign 1) or ``flow_backward`` (-1), a step's elementwise part in one
        operator, or in the model's last."""
        limit = guide.limit if guide.limit is not None else float(steps)
        advance = getattr(self.model, "advance", None)
        for i in range(steps):
            tau = i / steps
            numbers = Step(sign, 1.0 - tau, solver.rtc_weight(tau, limit), steps)
            if advance is not None:
                x = advance(x, i, prefix, self.constants, guide, numbers)
                continue
            x = self.operators.flow_step(
                x, predict(x, i), guide.target, guide.weights, **numbers._asdict()
            )
        return x

    # -- a request -------------------------------------------------------------------------------
    def run(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None = None,
    ) -> list[ActionChunk]:
        """noise: float32 ``adapter.noise_shape(batch)``; it and ``guide`` best on the host."""
        differentiates = guide is not None and guide.differentiates
        commits = guide is not None and guide.committed is not None
        asked = _Given(noise, guide)
        return self.answer(observations, asked, self.is_special(differentiates, commits))

    def is_special(self, differentiates: bool, commits: bool) -> bool:
        """Whether a guide that needs the model's gradient, or its training, runs plainly."""
        return differentiates or (commits and not self._commits)

    def answer(
        self, observations: Sequence[Observation], asked: Asked, special: bool = False
    ) -> list[ActionChunk]:
        """asked: checked, and made into noise and guide, while the device is at work already.
        special: ``is_special`` of that guide. The host waits for the device at the end alone."""
        with self._here(), torch.no_grad() if special else torch.inference_mode():
            return self._answer(observations, asked, special)

    def _answer(
        self, observations: Sequence[Observation], asked: Asked, special: bool
    ) -> list[ActionChunk]:
        adapter = self.adapter
        clock = self._clock
        clock.start()
        replayed = None
        if self._captured is not None and not special:
            replayed = self._captured.replay(observations, asked, clock)
        else:
            asked.check()
        if replayed is not None:
            answer = replayed[: len(observations)]
        else:
            clock.restart()
            inputs = self._inlet.inputs(observations)
            request = (inputs, *moved(asked.rest(), self.device))
            clock.mark("preprocess")
            run = self._special if special else self._plain
            answer = _download(run(request, clock))
        clock.mark("convert")
        arriving = answer.numpy()
        stages = clock.seconds()  # waits until the device has come so far
        begin = time.perf_counter()
        normalised = arriving.copy()
        actions = adapter.decode(normalised, observations)
        stages["convert"] += time.perf_counter() - begin
        if not all(np.isfinite(a).all() for a in actions):
            raise PolicyError(
                f"{adapter.spec.checkpoint}: the policy answered with non-finite actions"
            )
        return [
            ActionChunk(actions=a, normalised=n, stages=stages)
            for a, n in zip(actions, normalised, strict=True)
        ]

    def _plain(self, request: Any, clock: StageClock) -> torch.Tensor:
        made: list[Any] = []
        for stage, result in self._stages(request):
            clock.mark(stage)
            made.append(result)
        return cast(torch.Tensor, made[-1])

    def _special(self, request: Any, clock: StageClock) -> torch.Tensor:
        """Guidance that needs the model's gradient or its training: the plain path."""
        inputs, noise, guide = request
        model = self.adapter.model
        features = model.vision(inputs)
        clock.mark("vision")
        prefix = model.prefix(inputs, features)
        if guide.committed is not None:
            prefix = cast(CommittingModel, model).commit(prefix, guide.committed)
        clock.mark("prefix")
        x = self._loop(model, self._reference_constants, prefix, noise, guide)
        clock.mark("solver")
        return x


def _download(x: torch.Tensor) -> torch.Tensor:
    """x as float32 in host memory, once the device has come so far."""
    answer = torch.empty(x.shape, pin_memory=x.device.type == "cuda")
    return answer.copy_(x, non_blocking=True)


def _current(device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """Triton launches on the current device, whatever its tensors say."""
    if device.type != "cuda":
        return nullcontext
    index = torch.cuda.current_device() if device.index is None else device.index
    return partial(torch.cuda.device, index)
