# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A belt along y that carries the target block, at constant speed or with changes of direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phyai_ros.sim.task import WORKSPACE

MAX_SPEED = 0.3


@dataclass(frozen=True)
class Conveyor:
    """speed: m/s, at most ``MAX_SPEED``. reversing: turns round at random, every 1 to 3 s.

    A belt that does not reverse runs from one end of the workspace to the other and stops there;
    a reversing one also turns round at the ends. x: where it lies, m.
    """

    speed: float
    reversing: bool = False
    x: float = 0.64

    def __post_init__(self) -> None:
        if not 0.0 < self.speed <= MAX_SPEED:
            raise ValueError(
                f"conveyor speed {self.speed} m/s: must be over 0 and at most {MAX_SPEED}"
            )

    @property
    def range(self) -> tuple[float, float]:
        return float(WORKSPACE[1, 0]), float(WORKSPACE[1, 1])


class Ride:
    """One episode of a block on the belt; ``y`` (m) and ``velocity`` (m/s) at the newest step."""

    def __init__(self, conveyor: Conveyor, rng: np.random.Generator) -> None:
        self._conveyor = conveyor
        self._rng = rng
        low, high = conveyor.range
        direction = float(rng.choice([-1.0, 1.0]))
        if conveyor.reversing:
            self.y = float(rng.uniform(low, high))
        else:
            self.y = low if direction > 0 else high
        self.velocity = direction * conveyor.speed
        self._turn_in = float(rng.uniform(1.0, 3.0))

    def step(self, dt: float) -> None:
        low, high = self._conveyor.range
        self._turn_in -= dt
        if self._conveyor.reversing and self._turn_in <= 0.0:
            self.velocity = -self.velocity
            self._turn_in = float(self._rng.uniform(1.0, 3.0))
        self.y += self.velocity * dt
        if not low <= self.y <= high:
            self.y = min(max(self.y, low), high)
            self.velocity = -self.velocity if self._conveyor.reversing else 0.0
