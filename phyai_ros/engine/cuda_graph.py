# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Capture and shape-checked replay of a request's device work.

A bucket is one structure of inputs: shapes, dtypes, and every value that is not a tensor. Its three
graphs (vision, prefix, the whole solver loop) read static buffers; a request copies into them and
replays. All buckets share one memory pool: requests run one after another, stage after stage.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

Mark = Callable[[str], None]


# -- structures of tensors -----------------------------------------------------------------------
def flatten(value: Any) -> tuple[list[torch.Tensor], Any]:
    """-> the tensors in order, and a hashable description of everything else. Knows tensors,
    tuples, lists, dicts, dataclasses and guides; any other value must be hashable."""
    tensors: list[torch.Tensor] = []
    return tensors, _describe(value, tensors)


def _describe(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return ("tensor", tuple(value.shape), value.dtype)
    if isinstance(value, tuple | list):
        return (type(value), tuple(_describe(v, tensors) for v in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _describe(v, tensors)) for k, v in value.items()))
    if _is_record(value):
        fields = tuple((k, _describe(v, tensors)) for k, v in vars(value).items())
        return (type(value), fields)
    return ("value", value)


def _is_record(value: Any) -> bool:
    """A dataclass, or a guide (``solver.Guide``)."""
    return hasattr(value, "differentiates") or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def replace(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """``value`` with its tensors taken from ``tensors``, in ``flatten``'s order."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, tuple | list):
        new = [replace(v, tensors) for v in value]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    if isinstance(value, dict):
        return {k: replace(v, tensors) for k, v in value.items()}
    if _is_record(value):
        twin = copy.copy(value)
        for k, v in vars(value).items():
            object.__setattr__(twin, k, replace(v, tensors))
        return twin
    return value


# -- capture -------------------------------------------------------------------------------------
class Bucket:
    """One captured structure: static inputs, three graphs, the static answer."""

    def __init__(self, inputs: list[torch.Tensor]):
        self.inputs = inputs
        self.graphs: list[tuple[str, torch.cuda.CUDAGraph]] = []
        self.answer: torch.Tensor

    def replay(self, tensors: list[torch.Tensor], mark: Mark) -> torch.Tensor:
        torch._foreach_copy_(self.inputs, tensors, non_blocking=True)
        mark("preprocess")
        for stage, graph in self.graphs:
            graph.replay()
            mark(stage)
        return self.answer


class Graphs:
    """The captured buckets of one model on one device."""

    def __init__(self, device: torch.device):
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)
        self._buckets: dict[Any, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def find(self, request: Any) -> tuple[Bucket | None, list[torch.Tensor]]:
        """request: anything ``flatten`` knows. -> its bucket, None where there is none."""
        tensors, structure = flatten(request)
        return self._buckets.get(structure), tensors

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
        self._buckets[structure] = bucket
        torch.cuda.synchronize()
