# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How many ticks of action the arm has really consumed."""

from __future__ import annotations

from array import array
from collections import deque

import numpy as np


class Progress:
    """Cumulative executed ticks, by tick, over a bounded past.

    A chunk is late by what was *consumed* since its observation, not by what the clock says: while
    the arm stood still (first chunk, hold, starvation) its observation stayed true, and skipping
    rows would make it jump.
    """

    SIZE = 8192

    def __init__(self) -> None:
        # Single numbers are read and written, and none shall stay behind as an object.
        self._until = array("q", [0]) * self.SIZE
        self._tick = -1
        self._count = 0
        self._executing = False
        self._sent: deque[tuple[int, np.ndarray]] = deque(maxlen=256)

    def advance(self, tick: int) -> None:
        """Enter a tick; ticks that were missed count as the last one did."""
        for t in range(self._tick + 1, tick + 1):
            if self._executing:
                self._count += 1
            self._until[t % self.SIZE] = self._count
        self._tick = tick

    def mark(self, command: np.ndarray | None) -> None:
        """command: [joints], of the tick just entered; None when it executes no action."""
        self._executing = command is not None
        if command is None:
            self._sent.clear()
        else:
            self._sent.append((self._tick, command))

    def commands(self, start: int) -> list[np.ndarray]:
        """Commands of the ticks from ``start`` to the newest, as far back as none is missing."""
        rows: list[np.ndarray] = []
        expected = self._tick
        for tick, command in reversed(self._sent):
            if tick != expected or tick < start:
                break
            rows.append(command)
            expected -= 1
        return rows[::-1]

    def since(self, tick: int) -> int:
        """Ticks executed from ``tick`` up to the one just entered, which is not counted."""
        if tick >= self._tick:
            return 0
        if tick < 0:
            return self._count
        oldest = max(0, self._tick - self.SIZE + 1)
        return self._count - self._until[max(tick, oldest) % self.SIZE]
