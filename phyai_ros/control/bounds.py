# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How fast one joint may go from one tick to the next."""

from __future__ import annotations

import math


class Bounds:
    """Limits of one joint at one control period. slew: most change of speed in a tick."""

    __slots__ = ("_half", "_twice", "lower", "period", "slew", "upper", "velocity")

    def __init__(
        self, lower: float, upper: float, velocity: float, acceleration: float, period: float
    ) -> None:
        self.lower, self.upper, self.velocity, self.period = lower, upper, velocity, period
        self.slew = acceleration * period
        self._half, self._twice = 0.5 * self.slew, 2.0 * acceleration

    def braked(self, speed: float, ticks: int = 1) -> float:
        """Speed after so many ticks of braking."""
        return math.copysign(max(abs(speed) - ticks * self.slew, 0.0), speed)

    def stoppable(self, distance: float) -> float:
        """Greatest speed this tick from which slewing stops within ``distance`` (>= 0).

        Moving u*dt now and slewing by a*dt a tick needs at most (u + a*dt/2)^2 / (2a) in all; at
        u <= a*dt the arm stands on the next tick, so only u*dt counts.
        """
        speed = math.sqrt(self._twice * distance) - self._half
        last = distance / self.period
        if last > self.slew:
            last = self.slew
        return last if last > speed else speed

    def approach(self, position: float, speed: float, goal: float, goal_before: float) -> float:
        """Speed of this tick towards a goal inside the limits.

        Approaching faster than the goal itself moves is allowed only while it can still be braked
        in the distance left; a goal that is merely followed is never slowed by this.
        """
        wanted = (goal - position) / self.period
        moving = (goal - goal_before) / self.period
        if self._passes(wanted, wanted - speed, wanted - moving, position):
            return wanted
        # Comparisons, not min() and max(): this is most of a limited tick's time.
        most, slew = self.velocity, self.slew
        moving = -most if moving < -most else most if moving > most else moving
        distance = abs(goal - position)
        reach = self.stoppable(distance)
        short = distance / self.period  # over on the next tick
        if short > slew:
            short = slew
        fastest = moving + reach
        if short > fastest:
            fastest = short
        slowest = moving - reach
        if -short < slowest:
            slowest = -short
        # Neither faster than the joint may be, nor changing its speed by more.
        high, low = speed + slew, speed - slew
        wanted = slowest if wanted < slowest else fastest if wanted > fastest else wanted
        wanted = -most if wanted < -most else most if wanted > most else wanted
        wanted = low if wanted < low else high if wanted > high else wanted
        # The position limits come last: what keeps to them can always go on keeping to them.
        if wanted > 0.0:
            room = self.upper - position
            end = self.stoppable(room if room > 0.0 else 0.0)
            return end if end < wanted else wanted
        room = position - self.lower
        end = -self.stoppable(room if room > 0.0 else 0.0)
        return end if end > wanted else wanted

    def _passes(self, wanted: float, change: float, closing: float, position: float) -> bool:
        """Whether ``approach`` would leave the wanted speed as it is, without its square roots."""
        slew = self.slew
        if not (-slew <= change <= slew and -self.velocity <= wanted <= self.velocity):
            return False
        if -slew <= wanted <= slew:
            return True
        if not -slew <= closing <= slew:
            return False
        room = self.upper - position if wanted > 0.0 else position - self.lower
        needed = abs(wanted) + self._half
        return needed * needed <= self._twice * room
