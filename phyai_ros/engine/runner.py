# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Runs a model family: the order of work, what is computed once, and the stage times.

Once a load: ``constants``. Once a request: image tokens and ``prefix``. Per denoising step:
``predict`` alone. On a CUDA device, requests of a captured shape are replayed (``cuda_graph.py``)
and, in half precision, run a family's fused form where it has one; both after ``capture``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.cuda_graph import Graphs
from phyai_ros.engine.layers.fp8 import select_fp8
from phyai_ros.engine.layers.select import FastOperators, Operators, select
from phyai_ros.engine.models.base import Adapter, CommittingModel, Model, StagedAdapter
from phyai_ros.engine.quantize import quantized
from phyai_ros.engine.staging import upload
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import ActionChunk, Observation, PolicyError

_log = logging.getLogger(__name__)
SELECTORS = ("auto", "reference")
BATCHES = (1, 2, 4, 8, 16, 32)
_HOST = torch.device("cpu")


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
        self._staged = cast(StagedAdapter, adapter) if hasattr(adapter, "stage") else None
        self._graphs: Graphs | None = None
        self._batches: tuple[int, ...] = ()
        self._missed: set[Any] = set()
        self.replayed = 0
        """Requests answered by a replay."""
        self.refresh()

    @property
    def buckets(self) -> int:
        """Structures of requests that were captured."""
        return 0 if self._graphs is None else len(self._graphs)

    def refresh(self) -> None:
        """Compute the constants again; needed only if weights were changed after loading. What was
        captured is dropped with them."""
        model = self.adapter.model
        self._graphs, self._batches = None, ()
        with _current(self.device):
            self.operators = self._operators(model)
        fuse = getattr(model, "fused", None)
        self.model: Model = model
        if fuse is not None and isinstance(self.operators, FastOperators):
            self.model = fuse(self.operators)
        with torch.no_grad():  # not inference mode: a guide may differentiate through them
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
        afterwards. batches: None takes as many of ``BATCHES`` as the device has room for. -> the
        buckets there are; 0 where there is no CUDA device or a family cannot be captured, which
        then runs as before."""
        if self.device.type != "cuda" or self.selector == "reference":
            return 0
        with _current(self.device):
            return self._capture_all(observation, BATCHES if batches is None else batches, batches)

    def _capture_all(
        self, observation: Observation, sizes: Sequence[int], asked: Sequence[int] | None
    ) -> int:
        self._graphs = self._graphs or Graphs(self.device)
        adapter, room = self.adapter, _Room(self.device)
        for batch in sorted(sizes):
            if asked is None and not room.enough(batch):
                _log.info("no room to capture requests of %d and more", batch)
                break
            observations = [observation] * batch
            lengths = getattr(adapter, "graph_lengths", lambda _: (None,))(observations)
            try:
                for length in lengths:
                    if length is not None:
                        adapter.token_lengths = (length,)  # type: ignore[attr-defined]
                    self._capture(observations)
            except (RuntimeError, TypeError) as error:
                _log.warning(
                    "%s: requests of %d are not captured but run eagerly: %s",
                    adapter.spec.family,
                    batch,
                    str(error).splitlines()[0],
                )
                continue
            finally:
                if lengths != (None,):
                    adapter.token_lengths = tuple(lengths)  # type: ignore[attr-defined]
            self._batches = tuple(sorted({*self._batches, batch}))
            room.took(batch)
        torch.cuda.empty_cache()  # what tuning took
        return self.buckets

    def _capture(self, observations: Sequence[Observation]) -> None:
        assert self._graphs is not None
        with torch.inference_mode():
            inputs = self._inputs(observations)
            noise = torch.zeros(self.adapter.noise_shape(len(observations)))
            for guide in self._guides(noise):
                request = (inputs, *_moved((noise, guide), self.device))
                if isinstance(self.operators, FastOperators):
                    with self.operators.tuning():
                        for _ in self._stages(request):
                            pass
                self._graphs.capture(request, self._stages)
                if self._staged is not None:
                    staged = (self._staged.stage(observations), noise, guide)
                    self._graphs.capture_front(staged, self._place)

    def _inputs(self, observations: Sequence[Observation]) -> Any:
        """``prepare``, with the runner's operators where the adapter knows of them."""
        if self._staged is None:
            return self.adapter.prepare(observations)
        return self._staged.place(
            upload(self._staged.stage(observations), self.device), self.operators
        )

    def _place(self, staged: Any) -> Any:
        assert self._staged is not None
        inputs, noise, guide = staged
        return self._staged.place(inputs, self.operators), noise, guide

    def _guides(self, noise: torch.Tensor) -> list[solver.Guide | None]:
        """What to capture: where a family has the identity form, no guidance is that with weights
        of zero."""
        methods = self.adapter.spec.guidance_methods
        guides: list[solver.Guide | None] = []
        if "rtc_identity" in methods:
            guides.append(_unguided(noise))
        else:
            guides.append(None)
        if "seam" in methods:
            guides.append(solver.Seam(noise.clone(), torch.zeros_like(noise)))
        if "rtc_overlap" in methods:
            batch, horizon = noise.shape[:2]
            guides.append(
                solver.RtcOverlap(noise.clone(), [horizon // 2] * batch, [1] * batch, 6.0)
            )
        return guides

    def _stages(self, request: Any) -> Iterator[tuple[str, Any]]:
        """The device's work for (inputs, noise, guide), stage by stage."""
        inputs, noise, guide = request
        features = self.model.vision(inputs)
        yield "vision", features
        prefix = self.model.prefix(inputs, features)
        yield "prefix", prefix
        yield "solver", self._loop(self.model, self.constants, prefix, noise, guide)

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
            return self._identity_flow(predict, noise, steps, guide, sign)
        return self._solve(predict, noise, steps, guide)

    def _identity_flow(
        self,
        predict: solver.Predict,
        x: torch.Tensor,
        steps: int,
        guide: solver.RtcIdentity,
        sign: float,
    ) -> torch.Tensor:
        """``flow_forward`` (sign 1) or ``flow_backward`` (-1), a step's elementwise part in one
        operator."""
        limit = guide.limit if guide.limit is not None else float(steps)
        for i in range(steps):
            tau = i / steps
            x = self.operators.flow_step(
                x, predict(x, i), guide.target, guide.weights, sign=sign, rest=1.0 - tau,
                pull=solver.rtc_weight(tau, limit), steps=steps,
            )  # fmt: skip
        return x

    # -- a request -------------------------------------------------------------------------------
    def run(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None = None,
    ) -> list[ActionChunk]:
        """noise: float32 ``adapter.noise_shape(batch)``; it and ``guide`` best on the host. The
        host waits for the device once, at the end."""
        differentiates = guide is not None and guide.differentiates
        with _current(self.device), torch.no_grad() if differentiates else torch.inference_mode():
            return self._run(observations, noise, guide)

    def _run(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None,
    ) -> list[ActionChunk]:
        adapter = self.adapter
        clock = StageClock(self.device)
        special = guide is not None and (guide.differentiates or guide.committed is not None)
        captured = None if special else self._replay(observations, noise, guide, clock)
        if captured is not None:
            answer = captured[: len(observations)]
        elif special:
            noise, guide = _moved((noise, guide), self.device)
            answer = _download(self._special(observations, noise, cast(solver.Guide, guide), clock))
        else:
            inputs = self._inputs(observations)
            request = (inputs, *_moved((noise, guide), self.device))
            clock.mark("preprocess")
            made: list[Any] = []
            for stage, result in self._stages(request):
                clock.mark(stage)
                made.append(result)
            answer = _download(made[-1])
        clock.mark("convert")
        stages = clock.seconds()  # the one wait
        begin = time.perf_counter()
        normalised = answer.numpy().copy()
        actions = adapter.decode(torch.from_numpy(normalised), observations)
        stages["convert"] += time.perf_counter() - begin
        if not all(np.isfinite(a).all() for a in actions):
            raise PolicyError(
                f"{adapter.spec.checkpoint}: the policy answered with non-finite actions"
            )
        return [
            ActionChunk(actions=a, normalised=n, stages=stages)
            for a, n in zip(actions, normalised, strict=True)
        ]

    def _miss(self, request: Any, text: str) -> None:
        """Say it once a structure; what no warm-up named is not told for ever."""
        structure = flatten(request)[1]
        if structure not in self._missed and len(self._missed) < 64:
            self._missed.add(structure)
            _log.warning("%s: %s", self.adapter.spec.family, text)

    def _special(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide,
        clock: StageClock,
    ) -> torch.Tensor:
        """Guidance that needs the model's gradient or its training: the plain path."""
        model = self.adapter.model
        inputs = self._inputs(observations)
        clock.mark("preprocess")
        features = model.vision(inputs)
        clock.mark("vision")
        prefix = model.prefix(inputs, features)
        if guide.committed is not None:
            prefix = cast(CommittingModel, model).commit(prefix, guide.committed)
        clock.mark("prefix")
        x = self._loop(model, self._reference_constants, prefix, noise, guide)
        clock.mark("solver")
        return x

    def _replay(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None,
        clock: StageClock,
    ) -> torch.Tensor | None:
        """The captured answer [bucket's batch, ...], None where this shape was not captured."""
        batch = next((b for b in self._batches if b >= len(observations)), None)
        if self._graphs is None or batch is None:
            return None
        missing = batch - len(observations)
        if guide is None and "rtc_identity" in self.adapter.spec.guidance_methods:
            guide = _unguided(noise)
        filled = [*observations, *[observations[-1]] * missing]
        rest = _filled((noise, guide), missing)
        if self._staged is not None:
            staged = (self._staged.stage(filled), *_moved(rest, _HOST))
            front, leaves = self._graphs.front(staged)
            if front is not None:
                self.replayed += 1
                return front.replay(leaves, clock.mark)
            self._miss(
                staged,
                "images of a size that was not captured are prepared eagerly ("
                + ", ".join(f"{k} {v.shape[0]}x{v.shape[1]}" for k, v in filled[0].images.items())
                + "); a camera's size in the robot's YAML has it captured",
            )
        request = (self._inputs(filled), *_moved(rest, self.device))
        bucket, tensors = self._graphs.find(request)
        if bucket is None:
            cameras = len(observations[0].images)
            self._miss(
                request, f"a request of a shape not captured runs eagerly ({cameras} cameras)"
            )
            return None
        self.replayed += 1
        return bucket.replay(tensors, clock.mark)


def _moved(request: Any, device: torch.device) -> Any:
    """(noise, guide) with its tensors on ``device``."""
    tensors, _ = flatten(request)
    if all(t.device.type == device.type for t in tensors):
        return request
    upwards = device.type != "cpu"  # the other way, nothing would tell when they have arrived
    return replace(request, iter([t.to(device, non_blocking=upwards) for t in tensors]))


def _download(x: torch.Tensor) -> torch.Tensor:
    """x as float32 in host memory, once the device has come so far."""
    answer = torch.empty(x.shape, pin_memory=x.device.type == "cuda")
    return answer.copy_(x, non_blocking=True)


class _Room:
    """Whether a larger batch fits beside what is there: it takes in proportion to its size, and a
    tenth of the device stays free."""

    def __init__(self, device: torch.device):
        self._device = device
        self._free, self._whole = torch.cuda.mem_get_info(device)
        self._each = 0.0

    def took(self, batch: int) -> None:
        before, (self._free, _) = self._free, torch.cuda.mem_get_info(self._device)
        self._each = max(self._each, (before - self._free) / batch)

    def enough(self, batch: int) -> bool:
        return self._free - batch * self._each > 0.1 * self._whole


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device, whatever its tensors say."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _unguided(noise: torch.Tensor) -> solver.RtcIdentity:
    nothing = torch.zeros_like(noise)
    return solver.RtcIdentity(nothing, nothing)


def _filled(request: Any, missing: int) -> Any:
    """Repeat the last row of every tensor for an incomplete batch."""
    if not missing:
        return request
    tensors, _ = flatten(request)
    longer = [torch.cat([t, t[-1:].expand(missing, *t.shape[1:])]) for t in tensors]
    return replace(request, iter(longer))
