# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How far the simulation has to go, and what it stamps its messages with."""

from __future__ import annotations

from collections import deque

LONGEST_STEP = 0.1
"""Wall seconds made up for at once. What the machine cannot keep up with is given up: the
simulation then runs slow, and says so, rather than ever farther behind."""
_WINDOW = 2.0


class SimTime:
    """Simulated time paced on the wall clock. One thread advances it.

    speed: simulated seconds a wall second. simulated_stamps: stamps follow simulated time (for
    /clock) from the wall time of the start; else they are wall time.
    elapsed: simulated seconds since the start; never goes back, whatever the episodes do.
    lost: wall seconds given up.
    """

    def __init__(self, speed: float, simulated_stamps: bool) -> None:
        self.elapsed = 0.0
        self.lost = 0.0
        self.stamp_ns = 0
        self._speed = speed
        self._simulated = simulated_stamps
        self._last: float | None = None
        self._origin_ns = 0
        self._history: deque[tuple[float, float]] = deque()

    def advance(self, steady: float, wall_ns: int) -> float:
        """steady: s, a clock that never jumps; wall_ns: ROS time now. -> simulated seconds to
        step."""
        if self._last is None:
            self._last, self._origin_ns = steady, wall_ns
        passed = steady - self._last
        self._last = steady
        kept = min(passed, LONGEST_STEP)
        self.lost += passed - kept
        step = kept * self._speed
        self.elapsed += step
        simulated_ns = self._origin_ns + round(self.elapsed * 1e9)
        self.stamp_ns = simulated_ns if self._simulated else wall_ns
        self._history.append((steady, self.elapsed))
        while steady - self._history[0][0] > _WINDOW:
            self._history.popleft()
        return step

    def factor(self) -> float:
        """Simulated seconds a wall second, over the last two; NaN before the first."""
        history = list(self._history)
        if len(history) < 2 or history[-1][0] == history[0][0]:
            return float("nan")
        (t0, s0), (t1, s1) = history[0], history[-1]
        return (s1 - s0) / (t1 - t0)
