# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Capture and shape-checked replay of a request's device work.

A bucket is one structure of inputs: shapes, dtypes, and every value that is not a tensor. Its three
graphs (vision, prefix, the whole solver loop) read static buffers; a request copies into them and
replays. A front is one structure of a request on the host: its graph uploads, places and copies
into a bucket. All share one memory pool: requests run one after another, stage after stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from phyai_ros.engine.staging import Staging
from phyai_ros.engine.structure import flatten, replace

Mark = Callable[[str], None]


class Bucket:
    """One captured structure: static inputs, three graphs, the static answer, and pinned memory
    that it is copied into."""

    def __init__(self, inputs: list[torch.Tensor]):
        self.inputs = inputs
        self.graphs: list[tuple[str, torch.cuda.CUDAGraph]] = []
        self.answer: torch.Tensor
        self.host: torch.Tensor

    def fill(self, tensors: list[torch.Tensor]) -> None:
        torch._foreach_copy_(self.inputs, tensors, non_blocking=True)

    def replay(self, tensors: list[torch.Tensor], mark: Mark) -> torch.Tensor:
        self.fill(tensors)
        mark("preprocess")
        return self.run(mark)

    def run(self, mark: Mark) -> torch.Tensor:
        """-> pinned memory that holds the answer once the device has come so far, until the next
        request."""
        for stage, graph in self.graphs:
            graph.replay()
            mark(stage)
        self.host.copy_(self.answer, non_blocking=True)
        return self.host


class Front:
    """A request's way from the host into its bucket."""

    def __init__(self, staging: Staging, bucket: Bucket):
        self.staging, self.bucket = staging, bucket
        self.graph = torch.cuda.CUDAGraph()

    def replay(self, leaves: list[Any], mark: Mark) -> torch.Tensor:
        self.staging.write(leaves)
        self.graph.replay()
        mark("preprocess")
        return self.bucket.run(mark)


class Graphs:
    """The captured buckets of one model on one device."""

    def __init__(self, device: torch.device):
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)
        self._device = device
        self._buckets: dict[Any, Bucket] = {}
        self._fronts: dict[Any, Front] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def find(self, request: Any) -> tuple[Bucket | None, list[torch.Tensor]]:
        """request: anything ``flatten`` knows. -> its bucket, None where there is none."""
        tensors, structure = flatten(request)
        return self._buckets.get(structure), tensors

    def front(self, staged: Any) -> tuple[Front | None, list[Any]]:
        """staged: a request on the host. -> its front, None where there is none."""
        leaves, structure = flatten(staged)
        return self._fronts.get(structure), leaves

    def capture_front(self, staged: Any, place: Callable[[Any], Any]) -> None:
        """place(staged on the device) -> the request, whose bucket is captured already."""
        leaves, structure = flatten(staged)
        if structure in self._fronts:
            return
        staging = Staging(leaves, self._device)
        staging.write(leaves)
        there = replace(staged, iter(staging.device))
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            staging.upload()
            bucket, tensors = self.find(place(there))
            assert bucket is not None
            bucket.fill(tensors)
            torch.cuda.synchronize()
            front = Front(staging, bucket)
            front.graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                staging.upload()
                bucket.fill(flatten(place(there))[0])
            finally:
                front.graph.capture_end()
        self._fronts[structure] = front
        torch.cuda.synchronize()

    def capture(self, request: Any, stages: Callable[[Any], Iterator[tuple[str, Any]]]) -> None:
        """stages(request) yields after each stage its name and what it made; the last one is the
        answer. It is run twice before it is captured, so that nothing is built in between."""
        tensors, structure = flatten(request)
        if structure in self._buckets:
            return
        bucket = Bucket([t.clone() for t in tensors])
        static = replace(request, iter(bucket.inputs))
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                count = sum(1 for _ in stages(static))
            torch.cuda.synchronize()
            work = stages(static)
            made: list[Any] = []  # kept until the last stage is captured: it reads the others'
            for _ in range(count):
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    stage, result = next(work)
                finally:
                    graph.capture_end()
                bucket.graphs.append((stage, graph))
                made.append(result)
        bucket.answer = made[-1]
        bucket.host = torch.empty(bucket.answer.shape, pin_memory=True)
        self._buckets[structure] = bucket
        torch.cuda.synchronize()
