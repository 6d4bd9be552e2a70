# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What was heard on one topic, and its numbers. No ROS here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIMULATED_BEFORE = 1e9
"""Seconds; no wall clock of a robot shows the years before 2001, simulated time does."""


@dataclass(frozen=True)
class Endpoint:
    """One publisher or subscription. problem: why it cannot talk to the node it is meant for, None
    if it can."""

    node: str
    type: str
    problem: str | None = None


@dataclass
class Samples:
    """Messages of one topic. arrived: s, steady clock. now: s, the clock that should stamp, at
    arrival. sent: s, wall clock, when the middleware took the message. stamps: s, the headers'.
    size: bytes of the newest message. facts: what else the listener saw, by name."""

    topic: str
    label: str
    type: str
    arrived: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    stamps: list[float] = field(default_factory=list)
    size: int = 0
    refusals: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    publishers: list[Endpoint] = field(default_factory=list)
    subscribers: list[Endpoint] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.arrived)

    @property
    def rate(self) -> float:
        """Hz; NaN of fewer than two messages."""
        if self.count < 2 or self.arrived[-1] == self.arrived[0]:
            return math.nan
        return (self.count - 1) / (self.arrived[-1] - self.arrived[0])

    def gaps(self) -> np.ndarray:
        """Seconds between two arrivals."""
        return np.diff(np.array(self.arrived))

    @property
    def jitter(self) -> float:
        """s: 95th percentile of the gaps' distance from their median; NaN of fewer than three."""
        gaps = self.gaps()
        return _percentile(np.abs(gaps - np.median(gaps)), 95) if len(gaps) > 1 else math.nan

    @property
    def lost(self) -> float:
        """Share of messages that a steady sender of this median period sent and nobody heard."""
        gaps = self.gaps()
        if len(gaps) < 10:
            return math.nan
        sent = np.maximum(np.round(gaps / np.median(gaps)), 1).sum()
        return float(1.0 - len(gaps) / sent)

    @property
    def longest_gap(self) -> float:
        gaps = self.gaps()
        return float(gaps.max()) if len(gaps) else math.nan

    @property
    def age(self) -> float:
        """s, median: header stamp -> arrival, on the clock that should stamp."""
        if not self.stamps:
            return math.nan
        return float(np.median(np.array(self.now) - np.array(self.stamps)))

    @property
    def offset(self) -> float:
        """s: the least age of all samples. A message cannot arrive before it was stamped, so below
        zero it is the least by which the sender's clock is ahead."""
        if not self.stamps:
            return math.nan
        return float(np.min(np.array(self.now) - np.array(self.stamps)))

    @property
    def zero_stamps(self) -> int:
        return sum(stamp == 0.0 for stamp in self.stamps)

    @property
    def simulated(self) -> bool:
        """Whether the stamps can only be simulated time."""
        return any(0.0 < stamp < SIMULATED_BEFORE for stamp in self.stamps)

    @property
    def backward(self) -> int:
        """Stamps older than the one before, zeros left out."""
        stamps = [stamp for stamp in self.stamps if stamp]
        return int((np.diff(np.array(stamps)) < 0).sum()) if len(stamps) > 1 else 0

    @property
    def same_stamp(self) -> bool:
        return len(self.stamps) > 3 and len(set(self.stamps)) == 1 and self.stamps[0] != 0.0


def skew(one: Samples, other: Samples) -> float:
    """s: median distance of each stamp to the nearest of the other stream."""
    a, b = np.array(one.stamps), np.sort(np.array(other.stamps))
    if not len(a) or not len(b):
        return math.nan
    place = np.searchsorted(b, a)
    after = np.abs(b[np.minimum(place, len(b) - 1)] - a)
    before = np.abs(b[np.maximum(place - 1, 0)] - a)
    return float(np.median(np.minimum(before, after)))


def _percentile(values: np.ndarray, share: float) -> float:
    return float(np.percentile(values, share))
