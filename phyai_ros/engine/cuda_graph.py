# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Captured stages of a request's device work, found again by the structure of what they read.

A tree: the images' structure finds the graph of the vision stage, below it that of everything else
finds the prefix's, below that the noise and the guide find the whole solver loop's. In front of
each stands one copy from pinned memory; images are sent one by one, for they may lie in frames of
their own. So the device sees the images while the host still makes the rest, and what does not
depend on a length or a guide is captured once. All share one memory pool: requests run one after
another, stage after stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from phyai_ros.engine.capturing import capturing
from phyai_ros.engine.staging import Seat, Staging
from phyai_ros.engine.structure import flatten, replace

Work = Callable[[], Any]


class Stage:
    """One captured stage. result: what it made, in static memory. staging: the way in of what it
    reads and its parent did not make."""

    def __init__(self, graph: torch.cuda.CUDAGraph, result: Any, staging: Staging | None = None):
        self.graph, self.result, self.staging = graph, result, staging
        self.children: dict[Any, Stage] = {}
        self.host: torch.Tensor | None = None

    def child(self, staged: Any) -> tuple[Stage | None, list[Any]]:
        """The stage below for this structure, None where there is none; and ``staged``'s arrays."""
        leaves, structure = flatten(staged)
        return self.children.get(structure), leaves

    def replay(self, leaves: list[Any]) -> None:
        if self.staging is not None:
            self.staging.write(leaves)
        self.graph.replay()

    def download(self) -> torch.Tensor:
        """Pinned memory that holds the result, a tensor, once the device has come so far, until the
        next request."""
        assert self.host is not None
        return self.host.copy_(self.result, non_blocking=True)


class Vision(Stage):
    """The vision stage; it reads static pictures."""

    def __init__(self, graph: torch.cuda.CUDAGraph, result: Any, pictures: Any):
        super().__init__(graph, result)
        self.pictures = pictures
        self._static, _ = flatten(pictures)

    def fill(self, pictures: Any) -> None:
        if self._static:
            torch._foreach_copy_(self._static, flatten(pictures)[0], non_blocking=True)


class Front:
    """The images' way from the host into the vision stage's pictures. graph: from their seats on
    the device."""

    def __init__(self, graph: torch.cuda.CUDAGraph, vision: Vision, seats: Sequence[Seat]):
        self.graph, self.vision, self.seats = graph, vision, seats

    def replay(self, images: Iterable[np.ndarray]) -> None:
        for seat, image in zip(self.seats, images, strict=True):
            seat.send(image)
        self.graph.replay()


class Graphs:
    """The captured stages of one model on one device.

    warm: in what context a stage is run for the first time.
    """

    def __init__(self, device: torch.device, warm: Callable[[], AbstractContextManager[Any]]):
        self._device, self._warm = device, warm
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)
        self._fronts: dict[Any, Front] = {}
        self._visions: dict[Any, Vision] = {}

    def __len__(self) -> int:
        """Structures of requests: ways through the tree."""
        return sum(len(prefix.children) for v in self._visions.values()
                   for prefix in v.children.values())  # fmt: skip

    def front(self, images: Any) -> tuple[Front | None, list[Any]]:
        """images: on the host."""
        leaves, structure = flatten(images)
        return self._fronts.get(structure), leaves

    def vision(self, pictures: Any) -> Vision | None:
        """pictures: on the device."""
        return self._visions.get(flatten(pictures)[1])

    # -- capture ---------------------------------------------------------------------------------
    def add_vision(
        self, images: Any, place: Callable[[Any], Any], see: Callable[[Any], Any]
    ) -> Vision:
        """images: stacks. place: images on the device -> pictures. see: pictures -> features."""
        leaves, structure = flatten(images)
        if structure in self._fronts:
            return self._fronts[structure].vision
        staging, there = self._staged(images, leaves)
        given = place(there)
        vision = self.vision(given)
        if vision is None:
            tensors, key = flatten(given)
            pictures = replace(given, iter([t.clone() for t in tensors]))
            graph, features = self.record(lambda: see(pictures))
            vision = self._visions[key] = Vision(graph, features, pictures)

        graph, _ = self.record(lambda: vision.fill(place(there)))
        self._fronts[structure] = Front(graph, vision, staging.seats)
        return vision

    def add_child(self, parent: Stage, staged: Any, work: Callable[[Any], Any]) -> Stage:
        """work: ``staged`` on the device -> the stage's result."""
        leaves, structure = flatten(staged)
        if structure in parent.children:
            return parent.children[structure]
        staging, there = self._staged(staged, leaves)

        def run() -> Any:
            staging.upload()
            return work(there)

        stage = parent.children[structure] = Stage(*self.record(run), staging)
        return stage

    def _staged(self, staged: Any, leaves: list[Any]) -> tuple[Staging, Any]:
        staging = Staging(leaves, self._device)
        staging.write(leaves)
        staging.upload()
        return staging, replace(staged, iter(staging.device))

    def record(self, work: Work) -> tuple[torch.cuda.CUDAGraph, Any]:
        """-> the graph of ``work``, and its result in static memory. Run three times before, so
        that nothing is built or allocated in between. Raises what ``work`` raises; RuntimeError
        where it cannot be captured."""
        with self._warm():
            work()
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                work()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with capturing(graph, self._pool):
                result = work()
        torch.cuda.synchronize()
        return graph, result
