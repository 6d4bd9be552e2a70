# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Measured choices: which candidate serves an operator on a shape, and the file that keeps them."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch

from phyai_ros.engine.capturing import capturing

_log = logging.getLogger(__name__)
Candidate = Callable[[int], object]
"""Runs the operator once; the number tells which copy of its weights to use."""

_SHIPPED = Path(__file__).parent / "tuned"
_LAUNCHES = 24
_REPLAYS = 3


class Table:
    """Choices by operator and shape, for one device model.

    Shipped choices are read first, then those measured on this machine
    (``PHYAI_ROS_CACHE``, default ``~/.cache/phyai_ros``).
    """

    def __init__(self, device: torch.device):
        name = re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name(device).lower())
        root = os.environ.get("PHYAI_ROS_CACHE") or Path.home() / ".cache" / "phyai_ros"
        self._own = Path(root) / "operators" / f"{name}.json"
        self.choices: dict[str, str] = {}
        self.times: dict[str, dict[str, float]] = {}
        for file in (_SHIPPED / f"{name}.json", self._own):
            if file.is_file():
                self.choices |= json.loads(file.read_text())

    def save(self) -> None:
        """Keep the choices for the next start, where this user may write."""
        partial = self._own.with_suffix(f".{os.getpid()}.partial")
        try:
            self._own.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self.choices, indent=1, sort_keys=True) + "\n")
            partial.replace(self._own)
        except OSError as error:
            _log.warning("measured operator choices are not kept: %s", error)

    def measure(self, key: str, candidates: Mapping[str, Candidate], copies: int) -> str:
        """Time the candidates and keep the fastest. One that fails is not a candidate."""
        times: dict[str, float] = {}
        for name, candidate in candidates.items():
            try:
                times[name] = seconds(candidate, copies)
            except Exception as error:  # a tile too large for this device, say
                times[name] = float("inf")
                if len(candidates) == 1:
                    raise error
        self.times[key] = times
        self.choices[key] = min(times, key=times.__getitem__)
        return self.choices[key]


def copies(*weights: torch.Tensor) -> int:
    """How many copies of the weights are more than the L2 cache holds: in a model each layer's
    come from memory."""
    size = sum(w.numel() * w.element_size() for w in weights)
    return max(1, min(32, -(-160_000_000 // max(size, 1))))


@lru_cache(maxsize=8)
def _stream(device: int) -> torch.cuda.Stream:
    """One for all: the library keeps a workspace for every stream that it was ever called on."""
    return torch.cuda.Stream(device)


def seconds(candidate: Candidate, copies: int) -> float:
    """Seconds a launch takes inside a graph, the least of a few replays. Raises what the candidate
    raises; RuntimeError where it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        with torch.cuda.stream(_stream(torch.cuda.current_device())):
            candidate(0)
            torch.cuda.synchronize()
            with capturing(graph):
                for i in range(_LAUNCHES):
                    candidate(i % copies)
    except Exception:
        _stream.cache_clear()  # what was captured on it may not have ended well
        raise
    best = float("inf")
    for _ in range(_REPLAYS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        best = min(best, start.elapsed_time(stop) / 1e3 / _LAUNCHES)
    return best
