# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which requests of an adapter are captured, and how one finds its graphs again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from phyai_ros.engine import rtc, solver
from phyai_ros.engine.arrangement import Order, kind_of, order_of
from phyai_ros.engine.cuda_graph import Front, Graphs, Stage, Vision
from phyai_ros.engine.inlet import Inlet, moved
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.models.base import Adapter, Model
from phyai_ros.engine.stage_clock import StageClock
from phyai_ros.engine.staging import upload, whole
from phyai_ros.engine.structure import flatten, replace
from phyai_ros.engine.types import Observation

_log = logging.getLogger(__name__)
_HOST = torch.device("cpu")
BATCHES = (1, 2, 4, 8, 16, 32)


class Asked(Protocol):
    """A request, but for its observations."""

    def check(self) -> None:
        """Raises PolicyError where it, or an observation, cannot be used."""
        ...

    def rest(self) -> tuple[torch.Tensor, solver.Guide | None]:
        """Noise and guide, made when they are asked for; always the same."""
        ...


class Loop(Protocol):
    """The solver's whole loop on the device: prefix, noise, guide -> actions."""

    def __call__(
        self, prefix: Any, noise: torch.Tensor, guide: solver.Guide | None
    ) -> torch.Tensor: ...


class Captured:
    """The captured requests of one staged adapter on one CUDA device.

    commits: whether the model takes rows as decided where it was trained to (``rtc_trained``).
    """

    def __init__(
        self, adapter: Adapter, inlet: Inlet, operators: Operators, *, commits: bool = False
    ) -> None:
        self._adapter, self._inlet, self._commits = adapter, inlet, commits
        self._graphs = Graphs(inlet.device, _tuning(operators))
        self._batches: tuple[int, ...] = ()
        self._samples: list[Any] = []
        self._orders: dict[Any, tuple[Front, Order]] = {}
        self._missed: set[Any] = set()
        self.replayed = 0

    def __len__(self) -> int:
        return len(self._graphs)

    # -- capture ---------------------------------------------------------------------------------
    def add(
        self,
        observation: Observation,
        batches: Sequence[int] | None,
        model: Model,
        loop: Loop,
    ) -> None:
        """Every length the adapter names, each batch size, with and without elementwise guidance.
        batches: None takes as many of ``BATCHES`` as the device has room for."""
        adapter, room = self._adapter, _Room(self._inlet.device)
        for batch in sorted(BATCHES if batches is None else batches):
            if batches is None and not room.enough(batch):
                _log.info("no room to capture requests of %d and more", batch)
                break
            observations = [observation] * batch
            lengths = getattr(adapter, "graph_lengths", lambda _: (None,))(observations)
            padded_to = getattr(adapter, "token_lengths", ())
            try:
                # The longest first: what it took and gave back holds what the others need.
                for length in reversed(lengths):
                    if length is not None:
                        adapter.token_lengths = (length,)  # type: ignore[attr-defined]
                    self._capture(observations, model, loop)
                padded_to = tuple(lengths)
            except (RuntimeError, TypeError) as error:
                _log.warning(
                    "%s: requests of %d are not captured but run eagerly: %s",
                    adapter.spec.family,
                    batch,
                    (str(error) or repr(error)).splitlines()[0],
                )
                _log.debug("where it failed", exc_info=error)
                continue
            finally:
                if lengths != (None,):
                    adapter.token_lengths = padded_to  # type: ignore[attr-defined]
            self._batches = tuple(sorted({*self._batches, batch}))
            room.took(batch)
        torch.cuda.empty_cache()  # what tuning took

    def forget(self) -> None:
        """Nothing is captured any more: prompts come in their own length again."""
        if hasattr(self._adapter, "token_lengths"):
            self._adapter.token_lengths = ()

    @torch.inference_mode()
    def _capture(self, observations: Sequence[Observation], model: Model, loop: Loop) -> None:
        staged, graphs = self._inlet.staged, self._graphs
        assert staged is not None
        images, rest = staged.stage_images(observations), staged.stage_rest(observations)
        sample = upload(rest, self._inlet.device)
        self._samples.append(sample)  # what a vision stage makes of it in passing, replays make too
        for form in (whole(images), images):
            vision = graphs.add_vision(
                form, self._inlet.place, lambda p: model.vision(staged.join(p, sample))
            )
        prefix = graphs.add_child(
            vision,
            rest,
            lambda r: model.prefix(staged.join(vision.pictures, r), vision.result),
        )
        noise = torch.zeros(self._adapter.noise_shape(len(observations)))
        for guide in self._guides(noise):
            stage = graphs.add_child(
                prefix, (noise, guide), lambda request: loop(prefix.result, *request).float()
            )
            if stage.host is None:
                pinned = self._inlet.device.type == "cuda"
                stage.host = torch.empty(stage.result.shape, pin_memory=pinned)

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
        if self._commits and "rtc_trained" in methods:
            guides.append(rtc.RtcTrained(noise.clone(), torch.zeros(noise.shape[:2]) > 0))
        return guides

    # -- replay ----------------------------------------------------------------------------------
    def replay(
        self, observations: Sequence[Observation], asked: Asked, clock: StageClock
    ) -> torch.Tensor | None:
        """The answer [bucket's batch, ...] in pinned memory, to be read once the device has come so
        far; None where this shape was not captured. An incomplete batch repeats its last row. What
        is not needed for the images is made while the device sees them, and known images are sent
        before the request is checked: what a refused one leaves behind, the next overwrites."""
        kind = kind_of(observations)
        vision = self._glance(kind, observations, clock)
        asked.check()
        batch = next((b for b in self._batches if b >= len(observations)), None)
        staged = self._inlet.staged
        if batch is None or staged is None:
            return None
        missing = batch - len(observations)
        filled = [*observations, *[observations[-1]] * missing]
        if vision is None:
            vision = self._see(kind, observations, filled, clock)
        if vision is None:
            return None
        prefix, leaves = vision.child(staged.stage_rest(filled))
        if prefix is None:
            self._miss(vision, leaves, "a prompt of a length that was not captured")
            return None
        prefix.replay(leaves)
        clock.mark("prefix")
        noise, guide = asked.rest()
        if guide is None and "rtc_identity" in self._adapter.spec.guidance_methods:
            guide = _unguided(noise)
        request = _filled(moved((noise, guide), _HOST), missing)
        stage, leaves = prefix.child(request)
        if stage is None:
            self._miss(prefix, request, "a guide that was not captured")
            return None
        stage.replay(leaves)
        clock.mark("solver")
        self.replayed += 1
        return stage.download()

    def _glance(
        self, kind: Any, observations: Sequence[Observation], clock: StageClock
    ) -> Vision | None:
        """Images of a kind that was seen before, sent to where those went."""
        if kind not in self._orders:
            return None
        front, order = self._orders[kind]
        front.replay([observations[i].images[key] for i, key in order])
        return _looked_at(front.vision, clock)

    def _see(
        self,
        kind: Any,
        observations: Sequence[Observation],
        filled: Sequence[Observation],
        clock: StageClock,
    ) -> Vision | None:
        staged = self._inlet.staged
        assert staged is not None
        images = staged.stage_images(filled)
        front, stacks = self._graphs.front(images)
        if front is not None:
            order = order_of(observations, stacks)
            if kind is not None and order is not None:
                self._orders[kind] = front, order
            front.replay(array for stack in stacks for array in stack.arrays)
            vision: Vision = front.vision
        else:
            sizes = ", ".join(
                f"{k} {v.shape[0]}x{v.shape[1]}" for k, v in observations[0].images.items()
            )
            pictures = self._inlet.place(upload(images, self._inlet.device))
            found = self._graphs.vision(pictures)
            if found is None:
                self._miss(self, images, f"these images were not captured ({sizes})")
                return None
            vision = found
            self._miss(
                vision,
                images,
                f"images of a size that was not captured are resized eagerly ({sizes}); a camera's "
                "size in the robot's YAML has it captured",
            )
            vision.fill(pictures)
        return _looked_at(vision, clock)

    def _miss(self, where: Stage | Captured, request: Any, text: str) -> None:
        """Say it once a structure; what no warm-up named is not told for ever."""
        key = id(where), flatten(request)[1]
        if key not in self._missed and len(self._missed) < 64:
            self._missed.add(key)
            _log.warning("%s runs eagerly: %s", self._adapter.spec.family, text)


def _looked_at(vision: Vision, clock: StageClock) -> Vision:
    clock.mark("preprocess")
    vision.graph.replay()
    clock.mark("vision")
    return vision


def _tuning(operators: Operators) -> Callable[[], AbstractContextManager[Any]]:
    return operators.tuning if isinstance(operators, FastOperators) else nullcontext


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
