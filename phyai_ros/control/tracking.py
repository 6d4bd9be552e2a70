# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether the arm goes where it is sent: for robots that do not say when they have stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

OFF_COURSE = "stopped, pushed, or not listening? Resume when it may move"
"""In the reason of an arm that is held because it did not go where it was sent."""
ASTRAY = 0.5
"""Share of its tolerance by which another joint of an arm that is off is off as well."""


class TrackingWatch:
    """A joint is off its commands when it is measured farther than ``tolerance`` from all of them
    of the last ``lag`` ticks: outside the span of these by more than that. So an arm that follows
    late is not off, however fast it moves; one that is stuck, pushed or stopped by its own safety
    is, and so is one that runs away.

    tolerance: [joints], in their units; infinite where nothing is watched (a gripper that holds
    something never arrives). ticks: so many in a row and it is said. units: of each joint, for
    people.
    stopped_at: [joints], where those are that were off when it was said, NaN for the others; and
    for all of them where the measurement leapt there from where the arm was: an encoder that slips
    and another arm's driver say so too, and the arm is not taken to where it may never have been.
    """

    def __init__(
        self,
        names: Sequence[str],
        tolerance: Sequence[float] | np.ndarray,
        lag: int,
        ticks: int,
        units: Sequence[str],
    ) -> None:
        limits = np.array(tolerance, dtype=np.float64)
        if limits.shape != (len(names),) or not (limits > 0).all():
            raise ValueError(
                f"tracking: expected {len(names)} tolerances above 0 (one for each of "
                f"{list(names)}), found {limits.tolist()}"
            )
        if lag < 1 or ticks < 1:
            raise ValueError(f"tracking: expected lag >= 1 and ticks >= 1, found {lag}, {ticks}")
        self.count = 0
        """How often the arm was found off its commands."""
        self.error = 0.0
        """Newest: of the joint that is farthest off, as a share of its tolerance."""
        self._names, self._units = tuple(names), tuple(units)
        self._tolerance, self._per_tolerance, self._ticks = limits, 1.0 / limits, ticks
        self._sent: deque[np.ndarray] = deque(maxlen=lag)
        self._off = 0
        self.stopped_at = np.full(len(names), np.nan)
        self._before: np.ndarray | None = None
        self.leapt = False
        """Whether the measurement leapt off the commands; only while it is off."""

    def sent(self, command: np.ndarray) -> None:
        """command: [joints], of one tick."""
        self._sent.append(command)

    def look(self, measured: np.ndarray | None) -> str:
        """measured: [joints], now; None: not known, which says nothing. What is wrong, for people;
        empty while nothing is."""
        if measured is None or not self._sent:
            return ""
        before, self._before = self._before, measured
        nearest = float((np.abs(measured - self._sent[-1]) * self._per_tolerance).max())
        if nearest <= 1.0:  # most ticks; not where anything is no number
            self.error, self._off, self.leapt = nearest, 0, False
            return ""
        span = np.array(self._sent)
        outside = np.maximum(span.min(axis=0) - measured, measured - span.max(axis=0))
        outside = np.where(np.isfinite(measured), np.maximum(outside, 0.0), np.inf)
        outside = np.where(np.isfinite(self._tolerance), outside, 0.0)
        share = outside / self._tolerance
        worst = int(share.argmax())
        self.error = float(share[worst])
        if self.error <= 1.0:
            self._off, self.leapt = 0, False
            return ""
        self._off += 1
        if before is not None:
            self.leapt |= not (np.abs(measured - before) <= self._tolerance).all()
        if self._off < self._ticks:
            return ""
        self.count += 1
        self.stopped_at = np.where((share > ASTRAY) & (not self.leapt), measured, np.nan)
        unit = self._units[worst]
        return (
            f"{self._names[worst]} is {outside[worst]:.3g} {unit} from all commands of the last "
            f"{len(span)} ticks, for {self._off} ticks (limit {self._tolerance[worst]:g} {unit}): "
            f"{OFF_COURSE}"
        )

    def clear(self) -> None:
        """Nothing is commanded, or from another place."""
        self._sent.clear()
        self._off, self.error = 0, 0.0
        self._before, self.leapt = None, False
