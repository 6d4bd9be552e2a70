# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Measured choices: which candidate serves an operator on a shape, and the file that keeps them."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import torch

from phyai_ros.engine.capturing import capturing
from phyai_ros.engine.kernels import _triton

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

    choices: all of them, and what stands in where nothing was to be measured. measured: of them,
    those that this table found and ``save`` keeps. times: by operator and shape, of every candidate
    that was measured now, seconds; infinite where it failed.
    """

    def __init__(self, device: torch.device):
        name = re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name(device).lower())
        root = os.environ.get("PHYAI_ROS_CACHE") or Path.home() / ".cache" / "phyai_ros"
        # Files in ``operators``, beside it, hold what an early release shipped, too: not read.
        self._own = Path(root) / "measured" / f"{name}.json"
        shipped = _SHIPPED / f"{name}.json"
        self.choices: dict[str, str] = json.loads(shipped.read_text()) if shipped.is_file() else {}
        self.choices |= _kept(self._own)
        self.measured: dict[str, str] = {}
        self.times: dict[str, dict[str, float]] = {}
        self._failed: set[str] = set()
        self._told: set[tuple[str, str]] = set()

    def save(self) -> None:
        """Keep ``measured`` for the next start, where this user may write; what others measured
        meanwhile stays."""
        partial = self._own.with_suffix(f".{os.getpid()}.partial")
        try:
            self._own.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self._own.with_suffix(".lock")):
                kept = _kept(self._own) | self.measured
                partial.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
                partial.replace(self._own)
        except OSError as error:
            _log.warning("measured operator choices are not kept: %s", error)

    def measure(self, key: str, candidates: Mapping[str, Candidate], copies: int) -> str:
        """Time the candidates and ``keep`` the fastest. One that fails is not a candidate, which is
        told once, but for one too large for the device. Raises RuntimeError where all fail: the
        operator cannot run on this shape, and there is nothing to put in its place."""
        times: dict[str, float] = {}
        for name, candidate in candidates.items():
            try:
                times[name] = seconds(candidate, copies)
            except Exception as error:
                times[name] = float("inf")
                if not isinstance(error, _triton.TooLarge):  # which a tile is at every start
                    self._failed.add(key)
                    self._tell(key, name, error)
                if list(times.values()) == [float("inf")] * len(candidates):
                    raise RuntimeError(f"{key}: no candidate runs: {error}") from error
        fastest = min(times, key=times.__getitem__)
        self.times[key] = times
        self.keep(key, fastest)
        return fastest

    def keep(self, key: str, choice: str) -> None:
        """Take ``choice`` from now on. It is not saved where a candidate failed: one that found no
        memory today may be the fastest at the next start."""
        self.choices[key] = choice
        if key not in self._failed:
            self.measured[key] = choice

    def _tell(self, key: str, name: str, error: Exception) -> None:
        if (key, name) not in self._told:
            self._told.add((key, name))
            text = (str(error) or repr(error)).splitlines()[0]
            _log.warning("%s: candidate %s fails and is left out: %s", key, name, text)
            _log.debug("where it failed", exc_info=error)


def _kept(file: Path) -> dict[str, str]:
    """Choices of a file of this user's; none where it is not there or was spoilt: they can be
    measured again."""
    try:
        found = json.loads(file.read_text())
        if not all(isinstance(choice, str) for choice in found.values()):
            raise ValueError("a choice is not a name")
        return dict(found)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:  # JSON, UTF-8; not an object
        _log.warning("%s cannot be read; its choices are measured again: %s", file, error)
        return {}


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Within, no other thread or process is within the same, where the file system has locks:
    without them a choice may be lost, and is measured again. Raises OSError."""
    with file.open("a") as lock:  # closing it gives it back
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
