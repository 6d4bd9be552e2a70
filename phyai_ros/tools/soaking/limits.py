# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether commands stay within a robot's limits. Shares no code with the guard. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

ROUNDING = 1e-6
"""Share by which a limit may be exceeded: commands are doubles, so is this arithmetic."""
NEAR = 0.05
"""rad; so far from where the arm is measured may a first command be, for the arm may be moving."""
PAUSE = 1.5
"""Periods without a command after which the next one may be a first one: the arm was let go."""


@dataclass(frozen=True)
class Bounds:
    """Arrays [joints] in a command's order, in robot units. held: joints (grippers) that may go on
    from an older command, for what they hold keeps them from getting there. period: s."""

    names: Sequence[str]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    held: np.ndarray
    period: float


@dataclass(frozen=True)
class _Sent:
    values: np.ndarray
    velocity: np.ndarray | None
    time: float
    publisher: bytes
    number: int


class CommandCheck:
    """Call it with every command in order of arrival; it says what is wrong with each."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._before: _Sent | None = None
        self.checked = 0
        self.lost = 0
        """Commands that never came here, by their sequence numbers."""
        self.firsts = 0
        """Commands after a pause or of a new publisher."""
        self._unplaced: list[_Sent] = []

    @property
    def unplaced(self) -> int:
        """First commands that no position of the arm came to be compared with."""
        return len(self._unplaced)

    def place(self, measured: np.ndarray, time: float) -> list[str]:
        """What is wrong with first commands that came before the arm was heard: it has moved since,
        by what its velocity limits allow at most. measured: [joints]. time: s, of its arrival."""
        waiting, self._unplaced = self._unplaced, []
        return [text for first in waiting for text in self._near(first, measured, time)]

    def __call__(
        self,
        values: np.ndarray,
        time: float,
        publisher: bytes,
        number: int,
        measured: np.ndarray | None,
    ) -> list[str]:
        """values: [joints]. time: s, of publication. publisher, number: who sent it, and its place
        in what that one sent. measured: where the arm is [joints], None where that is not known
        now, after a restart for instance; ``place`` then judges a first command."""
        bounds, before = self._bounds, self._before
        self.checked += 1
        if len(values) != len(bounds.names):
            return [f"{len(values)} values for {len(bounds.names)} joints"]
        finite = np.isfinite(values)
        if not finite.all():
            self._before = None
            return [f"{self._listed(~finite)}: not finite"]
        outside = (values < bounds.lower - ROUNDING) | (values > bounds.upper + ROUNDING)
        found = [f"{self._listed(outside)}: outside its position limits"] if outside.any() else []
        sent = _Sent(values, None, time, publisher, number)
        if before is None or before.publisher != publisher:
            found += self._begin(sent, measured)
        else:
            steps = max(1, number - before.number)
            self.lost += steps - 1
            wrong = self._step(before, values, steps)
            if wrong and steps == 1 and time - before.time > PAUSE * bounds.period:
                wrong = self._begin(sent, measured)
            elif steps == 1:
                sent = replace(sent, velocity=(values - before.values) / bounds.period)
            found += wrong
        self._before = sent
        return found

    def _begin(self, first: _Sent, measured: np.ndarray | None) -> list[str]:
        self.firsts += 1
        if measured is None:
            self._unplaced.append(first)
            return []
        return self._near(first, measured, first.time)

    def _near(self, first: _Sent, measured: np.ndarray, time: float) -> list[str]:
        bounds = self._bounds
        distance = np.abs(first.values - measured)
        moved = bounds.velocity * (bounds.period + max(0.0, time - first.time))
        far = ~(distance <= moved + NEAR) & ~bounds.held
        if not far.any():
            return []
        return [
            f"{self._listed(far)}: a first command {distance[far].max():.3f} from where the arm is"
        ]

    def _step(self, before: _Sent, values: np.ndarray, steps: int) -> list[str]:
        bounds, found = self._bounds, []
        change = np.abs(values - before.values)
        fast = change > bounds.velocity * bounds.period * steps * (1 + ROUNDING) + 1e-9
        if fast.any():
            share = (change / (bounds.velocity * bounds.period * steps))[fast].max()
            found.append(f"{self._listed(fast)}: {share:.3f} of its velocity limit")
        if before.velocity is not None and steps == 1:
            velocity = (values - before.values) / bounds.period
            change = np.abs(velocity - before.velocity)
            hard = change > bounds.acceleration * bounds.period * (1 + ROUNDING) + 1e-7
            if hard.any():
                share = (change / (bounds.acceleration * bounds.period))[hard].max()
                found.append(f"{self._listed(hard)}: {share:.3f} of its acceleration limit")
        return found

    def _listed(self, which: np.ndarray) -> str:
        return ", ".join(n for n, w in zip(self._bounds.names, which, strict=True) if w)
