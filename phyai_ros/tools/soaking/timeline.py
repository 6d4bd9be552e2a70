# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What was seen of a run, as plain values. Times are seconds of the wall clock. Pure."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass, field
from typing import Any

from phyai_ros.control.states import State

ACTING = (State.RAMPING, State.EXECUTING)
REPEATED = 0.2
"""s after which the watcher says a state again."""
SILENCE = 0.6
"""s without a word of the handoff after which nobody drives the arm."""


@dataclass(frozen=True)
class Seen:
    """The handoff's state from ``time`` on. fresh: this tick is the first to use a chunk."""

    time: float
    state: State
    fresh: bool


@dataclass(frozen=True)
class Said:
    """A status of /diagnostics, said at ``time``. level: 0 ok, 1 warning, 2 error."""

    time: float
    level: int
    text: str


@dataclass
class Timeline:
    """states: every change, every first use of a chunk, and otherwise one every REPEATED. said:
    every change of a status. violations: (time, text) of commands outside limits. not_finite:
    (time, text) of published numbers that are none. poses: (time, positions of the joints), where
    the arm was, every REPEATED. counts: the watcher's totals. alive: when the watcher last spoke.
    """

    states: list[Seen] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    violations: list[tuple[float, str]] = field(default_factory=list)
    not_finite: list[tuple[float, str]] = field(default_factory=list)
    poses: list[tuple[float, list[float]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    alive: float = 0.0

    def add(self, event: dict[str, Any]) -> None:
        """One line of the watcher."""
        kind, time = event["event"], float(event["time"])
        self.alive = max(self.alive, time)
        if kind == "state":
            bisect.insort(
                self.states, Seen(time, State(event["state"]), event["fresh"]), key=lambda s: s.time
            )
        elif kind == "said":
            bisect.insort(
                self.said, Said(time, event["level"], event["text"]), key=lambda s: s.time
            )
        elif kind == "violation":
            self.violations.append((time, event["text"]))
        elif kind == "not_finite":
            self.not_finite.append((time, event["text"]))
        elif kind == "pose":
            self.poses.append((time, event["positions"]))
        elif kind == "counts":
            self.counts = event["counts"]

    def acting(self, now: float, within: float) -> bool:
        """Whether the arm is driven: the newest state says so and is not older than ``within``."""
        if not self.states:
            return False
        newest = self.states[-1]
        return newest.state in ACTING and now - newest.time <= within

    def acted_throughout(self, start: float, end: float) -> bool:
        """Whether every state from ``start`` to ``end`` drives the arm, and none is missing."""
        at = bisect.bisect_right(self.states, start, key=lambda s: s.time) - 1
        if at < 0:
            return False
        states = [s for s in self.states[at:] if s.time <= end]
        times = [*(s.time for s in states), end]
        silent = any(b - a > SILENCE for a, b in itertools.pairwise(times))
        return not silent and all(s.state in ACTING for s in states)

    def moved(self, start: float, end: float) -> float:
        """The farthest that a joint came from where it was at ``start``; rad or m."""
        within = [pose for time, pose in self.poses if start <= time <= end]
        moves = [abs(a - b) for p in within for a, b in zip(p, within[0], strict=True)]
        return max(moves, default=0.0)

    def stopped(self, after: float) -> float | None:
        """When the arm was first not driven after a moment."""
        at = bisect.bisect_left(self.states, after, key=lambda s: s.time)
        return next((s.time for s in self.states[at:] if s.state not in ACTING), None)

    def resumed(self, after: float) -> float | None:
        """When the arm was first driven by a chunk that it first used after a moment."""
        at = bisect.bisect_left(self.states, after, key=lambda s: s.time)
        return next((s.time for s in self.states[at:] if s.fresh and s.state in ACTING), None)
