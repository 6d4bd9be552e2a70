# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which requests of an adapter are captured, and how one finds its graphs again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from phyai_ros.engine import solver
from phyai_ros.engine.cuda_graph import Graphs
from phyai_ros.engine.inlet import Inlet, moved
from phyai_ros.engine.layers.select import FastOperators, Operators
from phyai_ros.engine.models.base import Adapter
from phyai_ros.engine.stage_clock import StageClock
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import Observation

_log = logging.getLogger(__name__)
_HOST = torch.device("cpu")
BATCHES = (1, 2, 4, 8, 16, 32)

Stages = Callable[[Any], Iterator[tuple[str, Any]]]
"""(inputs, noise, guide) on the device -> each stage's name and what it made."""


class Captured:
    """The captured requests of one adapter on one CUDA device."""

    def __init__(self, adapter: Adapter, inlet: Inlet, operators: Operators) -> None:
        self._adapter, self._inlet, self._operators = adapter, inlet, operators
        self._graphs = Graphs(inlet.device)
        self._batches: tuple[int, ...] = ()
        self._missed: set[Any] = set()
        self.replayed = 0

    def __len__(self) -> int:
        return len(self._graphs)

    # -- capture ---------------------------------------------------------------------------------
    def add(self, observation: Observation, batches: Sequence[int] | None, stages: Stages) -> None:
        """Every length the adapter names, each batch size, with and without elementwise guidance.
        batches: None takes as many of ``BATCHES`` as the device has room for."""
        adapter, room = self._adapter, _Room(self._inlet.device)
        for batch in sorted(BATCHES if batches is None else batches):
            if batches is None and not room.enough(batch):
                _log.info("no room to capture requests of %d and more", batch)
                break
            observations = [observation] * batch
            lengths = getattr(adapter, "graph_lengths", lambda _: (None,))(observations)
            try:
                for length in lengths:
                    if length is not None:
                        adapter.token_lengths = (length,)  # type: ignore[attr-defined]
                    self._capture(observations, stages)
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

    def _capture(self, observations: Sequence[Observation], stages: Stages) -> None:
        with torch.inference_mode():
            inputs = self._inlet.inputs(observations)
            noise = torch.zeros(self._adapter.noise_shape(len(observations)))
            for guide in self._guides(noise):
                request = (inputs, *moved((noise, guide), self._inlet.device))
                if isinstance(self._operators, FastOperators):
                    with self._operators.tuning():
                        for _ in stages(request):
                            pass
                self._graphs.capture(request, stages)
                staged = self._inlet.stage(observations)
                if staged is not None:
                    self._graphs.capture_front((staged, noise, guide), self._place)

    def _place(self, staged: Any) -> Any:
        inputs, noise, guide = staged
        return self._inlet.place(inputs), noise, guide

    def _guides(self, noise: torch.Tensor) -> list[solver.Guide | None]:
        """What to capture: where a family has the identity form, no guidance is that with weights
        of zero."""
        methods = self._adapter.spec.guidance_methods
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

    # -- replay ----------------------------------------------------------------------------------
    def replay(
        self,
        observations: Sequence[Observation],
        noise: torch.Tensor,
        guide: solver.Guide | None,
        clock: StageClock,
    ) -> torch.Tensor | None:
        """The answer [bucket's batch, ...] in pinned memory, to be read once the device has come so
        far; None where this shape was not captured. An incomplete batch repeats its last row."""
        batch = next((b for b in self._batches if b >= len(observations)), None)
        if batch is None:
            return None
        missing = batch - len(observations)
        if guide is None and "rtc_identity" in self._adapter.spec.guidance_methods:
            guide = _unguided(noise)
        filled = [*observations, *[observations[-1]] * missing]
        rest = _filled((noise, guide), missing)
        staged = self._inlet.stage(filled)
        if staged is not None:
            whole = (staged, *moved(rest, _HOST))
            front, leaves = self._graphs.front(whole)
            if front is not None:
                self.replayed += 1
                return front.replay(leaves, clock.mark)
            self._miss(
                whole,
                "images of a size that was not captured are prepared eagerly ("
                + ", ".join(f"{k} {v.shape[0]}x{v.shape[1]}" for k, v in filled[0].images.items())
                + "); a camera's size in the robot's YAML has it captured",
            )
        request = (self._inlet.inputs(filled), *moved(rest, self._inlet.device))
        bucket, tensors = self._graphs.find(request)
        if bucket is None:
            cameras = len(observations[0].images)
            self._miss(
                request, f"a request of a shape not captured runs eagerly ({cameras} cameras)"
            )
            return None
        self.replayed += 1
        return bucket.replay(tensors, clock.mark)

    def _miss(self, request: Any, text: str) -> None:
        """Say it once a structure; what no warm-up named is not told for ever."""
        structure = flatten(request)[1]
        if structure not in self._missed and len(self._missed) < 64:
            self._missed.add(structure)
            _log.warning("%s: %s", self._adapter.spec.family, text)


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
