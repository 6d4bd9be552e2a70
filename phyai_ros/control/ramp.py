# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The first move after a standstill."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from phyai_ros.control.guard import Limits


class _RampConfig(Protocol):
    @property
    def period(self) -> float: ...

    @property
    def ramp_speed(self) -> float: ...


class Ramp:
    """From where the arm stands into a plan that is already running.

    The weight of the plan rises smoothly (3s^2 - 2s^3) over the time that the distance to its
    first row takes at ``ramp_speed`` times the velocity limits; no distance, no ramp.
    """

    def __init__(self, limits: Limits, config: _RampConfig) -> None:
        self._speed = limits.velocity * config.ramp_speed * config.period
        self._base: np.ndarray | None = None
        self._first = 0
        self._ticks = 0

    def start(self, base: np.ndarray, row: np.ndarray, tick: int) -> None:
        """base: where the arm stands; row: the plan's at ``tick``. Both [joints], robot units."""
        self._ticks = int(np.ceil(np.max(np.abs(row - base) / self._speed)))
        self._base, self._first = base, tick

    def active(self, tick: int) -> bool:
        return self._base is not None and tick < self._first + self._ticks - 1

    def blend(self, row: np.ndarray, tick: int) -> np.ndarray:
        """row [joints] of the plan at ``tick`` -> what is commanded instead."""
        if self._base is None:
            return row
        share = (tick - self._first + 1) / max(self._ticks, 1)
        if share >= 1.0:
            self._base = None
            return row
        weight = share * share * (3.0 - 2.0 * share)
        return self._base + weight * (row - self._base)
