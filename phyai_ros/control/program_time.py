# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The time in which the robot carries out a plan, when the robot can slow itself down."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

MEMORY = 60.0
"""Seconds of the past that are kept; older stamps are placed as if at the oldest."""


class ProgramTime:
    """Wall time less what the robot has lost by running slower than it was told.

    A robot at half speed takes two seconds for one of a plan. In program time that second is one
    second, so a handoff that lives in it plays no row before the robot is there, and a chunk is
    late by what was executed since its observation. All times are seconds; while the factor is one
    from the start, program time is wall time, to the bit. One thread.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        """Share of full speed at which the robot runs from now on, above 0 and at most 1."""
        self._lag = 0.0
        self._wall: float | None = None
        self._walls: deque[float] = deque()
        self._lags: deque[float] = deque()

    def advance(self, wall: float) -> float:
        """Program time now. A clock that jumps takes program time along."""
        before, self._wall = self._wall, wall
        if before is not None and wall < before:
            self._walls.clear()
            self._lags.clear()
        elif before is not None and wall - before < 1.0 and self.factor != 1.0:
            if not self._walls or self._walls[-1] < before:
                self._remember(before)
            self._lag += (1.0 - self.factor) * (wall - before)
            self._remember(wall)
            while self._walls[0] < wall - MEMORY:
                self._walls.popleft()
                self._lags.popleft()
        return wall - self._lag

    def program(self, wall: float) -> float:
        """Program time of a wall time."""
        return wall - self._interpolate(wall, list(self._walls))

    def wall(self, program: float) -> float:
        """Wall time of a program time: the inverse of ``program``, up to rounding."""
        shifted = [w - lag for w, lag in zip(self._walls, self._lags, strict=True)]
        return program + self._interpolate(program, shifted)

    def _remember(self, wall: float) -> None:
        self._walls.append(wall)
        self._lags.append(self._lag)

    def _interpolate(self, at: float, grid: list[float]) -> float:
        if not grid or at >= grid[-1]:
            return self._lag
        if at <= grid[0]:
            return self._lags[0]
        i = bisect_right(grid, at)
        share = (at - grid[i - 1]) / (grid[i] - grid[i - 1])
        return self._lags[i - 1] + share * (self._lags[i] - self._lags[i - 1])
