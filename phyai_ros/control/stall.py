# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A gripper that closed and then got no new command for long: the task is stuck.

A vision-language-action policy that missed its object tends to hold a closed gripper in the air.
Counted in ticks of execution, not in seconds, so a slow policy or a hold is no stall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Closing:
    """Where a gripper counts as closed: at or beyond ``threshold``, on the side of ``closed``
    (both in its joint's unit)."""

    closed: float
    threshold: float

    def __post_init__(self) -> None:
        if self.closed == self.threshold:
            raise ValueError("closed and threshold: expected two different positions")

    def holds(self, position: float) -> bool:
        if self.closed < self.threshold:
            return position <= self.threshold
        return position >= self.threshold


class StallDetector:
    """grippers: joint -> where it is closed. ticks: executed ticks without a command before it is
    called a stall. change: a command that moves a gripper by more than this starts anew. Either is
    one for all, or one for each gripper."""

    def __init__(
        self,
        names: Sequence[str],
        grippers: Mapping[str, Closing],
        ticks: int | Mapping[str, int],
        change: float | Mapping[str, float] = 1e-3,
    ) -> None:
        unknown = [g for g in grippers if g not in names]
        if unknown:
            raise ValueError(f"grippers {unknown}: expected some of {list(names)}")
        patience = ticks if isinstance(ticks, Mapping) else dict.fromkeys(names, ticks)
        least = change if isinstance(change, Mapping) else dict.fromkeys(names, change)
        if min(patience.values()) < 1 or not min(least.values()) > 0:
            raise ValueError(f"expected ticks >= 1 and change > 0, found {ticks}, {change}")
        self.count = 0
        self._watched = [
            (list(names).index(g), g, grippers[g], patience[g], least[g]) for g in grippers
        ]
        self._reference: dict[str, tuple[float, int]] = {}

    def update(self, executing: bool, command: np.ndarray | None) -> str:
        """One tick: the joint that is stalled, or empty. Each stall is counted once."""
        stalled = ""
        if not executing or command is None:
            return stalled
        for column, name, closing, ticks, change in self._watched:
            position = float(command[column])
            last, still = self._reference.get(name, (position, 0))
            if abs(position - last) > change or not closing.holds(position):
                self._reference[name] = (position, 0)
                continue
            still += 1
            self._reference[name] = (last, still)
            if still >= ticks:
                stalled = name
                self.count += still == ticks
        return stalled

    def clear(self) -> None:
        """A new epoch or episode."""
        self._reference.clear()
