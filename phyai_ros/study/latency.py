# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How long the policy takes to answer, in a study: a constant, spikes, or as measured.

The time of an answer is from its observation to the chunk's arrival at the handoff.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class LatencyError(ValueError):
    """A latency that cannot be used; the text says which, found and expected."""


class Latency(Protocol):
    """label: its name in tables and keys."""

    @property
    def label(self) -> str: ...

    def seconds(self, nth: int, rng: np.random.Generator) -> float:
        """Of the nth answer of an episode, from 1."""
        ...


@dataclass(frozen=True)
class Constant:
    """value: seconds."""

    value: float

    @property
    def label(self) -> str:
        return f"{1e3 * self.value:g} ms"

    def seconds(self, nth: int, rng: np.random.Generator) -> float:
        return self.value


@dataclass(frozen=True)
class Spikes:
    """base: seconds; each ``every``-th answer takes ``factor`` times as long."""

    base: float
    factor: float
    every: int

    @property
    def label(self) -> str:
        return f"{1e3 * self.base:g} ms, ×{self.factor:g} every {self.every}"

    def seconds(self, nth: int, rng: np.random.Generator) -> float:
        return self.base * self.factor if nth % self.every == 0 else self.base


@dataclass(frozen=True)
class Recorded:
    """samples: seconds, drawn with replacement."""

    name: str
    samples: tuple[float, ...]

    @property
    def label(self) -> str:
        # Two runs of one name must not pass for the same delays.
        median = 1e3 * float(np.median(self.samples))
        return f"{self.name}, {len(self.samples)} answers, median {median:.3g} ms"

    def seconds(self, nth: int, rng: np.random.Generator) -> float:
        return float(rng.choice(self.samples))


_SPIKES = re.compile(r"(?P<base>[\d.]+)x(?P<factor>[\d.]+)@(?P<every>\d+)")


def parse(text: str) -> Latency:
    """``100``: ms. ``100x5@10``: 100 ms, five times as long every tenth answer.
    Raises LatencyError."""
    found = _SPIKES.fullmatch(text.strip())
    try:
        if found is None:
            latency: Latency = Constant(_milliseconds(text))
        else:
            every = int(found["every"])
            if every < 1:
                raise ValueError
            latency = Spikes(_milliseconds(found["base"]), float(found["factor"]), every)
    except ValueError:
        raise LatencyError(
            f"delay {text!r}: expected milliseconds as in 100, or spikes as in 100x5@10 "
            f"(five times 100 ms every tenth answer)"
        ) from None
    return latency


def _milliseconds(text: str) -> float:
    value = float(text) / 1e3
    if not (math.isfinite(value) and value >= 0):
        raise ValueError
    return value


def read(path: Path, image_age: float = 0.0) -> Recorded:
    """A report.json of a run, a JSON list of seconds, or a text file with one number a line: times
    from the pictures to the chunk. image_age: seconds of them that passed before the request.
    Raises LatencyError naming file, expected and found."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LatencyError(f"{path}: {error.strerror}") from error
    try:
        samples = _samples(json.loads(text), path)
    except json.JSONDecodeError:
        samples = text.replace(",", " ").split()
    try:
        values = tuple(float(s) for s in samples)
    except (TypeError, ValueError):
        raise LatencyError(f"{path}: expected numbers (seconds), found {samples[:3]}") from None
    if not values or not all(math.isfinite(v) and v >= 0 for v in values):
        raise LatencyError(f"{path}: expected at least one number of seconds >= 0, all finite")
    name = path.parent.name if path.name == "report.json" else path.stem
    return Recorded(name or path.stem, tuple(max(0.0, v - image_age) for v in values))


def _samples(value: Any, path: Path) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        found = value.get("chunk_latency")
        if isinstance(found, dict) and isinstance(found.get("samples"), list):
            samples: list[Any] = found["samples"]
            return samples
    raise LatencyError(
        f"{path}: expected a list of seconds, or a report with chunk_latency.samples"
    )
