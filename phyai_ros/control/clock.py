# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The absolute tick axis: which control tick a time belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

PHASE_GAIN = 0.05
"""Share of a tick's timing error by which the axis follows its caller. Two clocks that differ by
500 ppm then stay within one hundredth of a tick, and one late wake-up hardly shows."""


@dataclass(frozen=True)
class Advance:
    """One step along the axis.

    tick: its number. missed: ticks that passed without a call. jitter: seconds, the call against
    its schedule. jumped: seconds by which the clock jumped, 0.0 normally. repeated: the call came
    so early that it belongs to the tick before; nothing advanced.
    """

    tick: int
    missed: int = 0
    jitter: float = 0.0
    jumped: float = 0.0
    repeated: bool = False


class TickAxis:
    """Ticks are integers that only rise; tick n is at ``time(n)`` on the caller's clock.

    A clock that steps back by more than a tick, or forward by more than ``jump`` seconds, does not
    move the axis: the next tick is the next integer and the axis is laid anew from there.
    """

    def __init__(self, period: float, *, jump: float = 1.0) -> None:
        if not (math.isfinite(period) and period > 0):
            raise ValueError(f"tick period: expected seconds > 0, found {period!r}")
        if not jump > period:
            raise ValueError(f"clock jump: expected more than a tick ({period} s), found {jump!r}")
        self.period = period
        self.jump = jump
        self.tick = -1
        self._origin = 0.0
        self._last = 0.0
        self._resting = False

    @property
    def started(self) -> bool:
        return self.tick >= 0

    def time(self, tick: int) -> float:
        """Scheduled time of a tick, seconds."""
        return self._origin + tick * self.period

    def at(self, stamp: float) -> int:
        """The tick nearest to a time; may lie before tick 0 or after the newest tick."""
        return round((stamp - self._origin) / self.period)

    def rest(self) -> None:
        """Nobody advances the axis for a while, on purpose: the next tick is the next integer,
        whenever that is, and no tick is missed."""
        self._resting = True

    def advance(self, now: float) -> Advance:
        if not math.isfinite(now):
            raise ValueError(f"now: expected a finite time, found {now!r}")
        if self._resting or not self.started:
            return self._anew(now)
        elapsed = now - self._last
        if elapsed < -self.period or elapsed > self.jump:
            return replace(self._anew(now), jumped=elapsed - self.period)
        due = self.at(now)
        if due <= self.tick:
            return Advance(self.tick, jitter=now - self.time(self.tick), repeated=True)
        missed = due - self.tick - 1
        self.tick, self._last = due, now
        jitter = now - self.time(due)
        self._origin += PHASE_GAIN * jitter
        return Advance(due, missed=missed, jitter=jitter)

    def _anew(self, now: float) -> Advance:
        """The next tick is now, wherever the schedule had it."""
        self._resting = False
        self.tick, self._last = self.tick + 1, now
        self._origin = now - self.tick * self.period
        return Advance(self.tick)
