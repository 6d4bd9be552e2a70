# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The last gate before the arm: finite, position, velocity and acceleration limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from phyai_ros.control.workspace import AXES, Workspace

_EPS = 1e-9


@dataclass(frozen=True)
class Limits:
    """Per joint, in robot units: position [J] (lower, upper), velocity [J] a second, acceleration
    [J] a second squared. All finite; velocity and acceleration above zero."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"joint names: expected no repetition, found {list(self.names)}")
        for key in ("lower", "upper", "velocity", "acceleration"):
            value = np.array(getattr(self, key), dtype=np.float64)
            if value.shape != (len(self.names),) or not np.isfinite(value).all():
                raise ValueError(
                    f"{key}: expected {len(self.names)} finite numbers "
                    f"(one for each of {list(self.names)}), found {value.tolist()}"
                )
            object.__setattr__(self, key, value)
        for i, name in enumerate(self.names):
            if not self.lower[i] < self.upper[i]:
                raise ValueError(
                    f"{name}: expected lower < upper, found {self.lower[i]}, {self.upper[i]}"
                )
            if not (self.velocity[i] > 0 and self.acceleration[i] > 0):
                raise ValueError(
                    f"{name}: expected velocity and acceleration limits above 0, "
                    f"found {self.velocity[i]}, {self.acceleration[i]}"
                )

    def wild(self, positions: np.ndarray) -> np.ndarray:
        """bool [..., J]: farther outside a joint's limits than the limits are apart, or no number.
        That is another unit, or an encoder that fails; no clipping makes it right."""
        span = self.upper - self.lower
        return ~((positions >= self.lower - span) & (positions <= self.upper + span))


class Guard:
    """Every command leaves through here, one call a tick.

    Limits hold against the last command: ``|p - last| <= velocity * dt`` and
    ``|(p - last)/dt - last velocity| <= acceleration * dt``, and the command can always still be
    stopped inside the position limits. An arm that starts outside its limits is only ever moved
    inwards. With a workspace, a step after which the tool, or the tool once braked, would be
    outside the box is not taken: the arm brakes instead. Each intervention is counted under (kind,
    joint); kinds are ``non_finite``, ``position``, ``velocity``, ``acceleration``, and
    ``workspace`` with an axis in place of the joint.
    """

    def __init__(self, limits: Limits, period: float, workspace: Workspace | None = None) -> None:
        if not period > 0:
            raise ValueError(f"control period: expected seconds > 0, found {period!r}")
        self.limits = limits
        self.period = period
        self.workspace = workspace
        self.interventions: Counter[tuple[str, str]] = Counter()
        self.limited_ticks = 0
        self.last: np.ndarray | None = None
        # Plain floats: for the few joints of an arm several times faster than arrays.
        self._bounds = [
            _Bounds(
                float(limits.lower[i]),
                float(limits.upper[i]),
                float(limits.velocity[i]),
                float(limits.acceleration[i]),
                period,
            )
            for i in range(len(limits.names))
        ]
        kinds = ("position", "velocity", "acceleration")
        self._kinds = [tuple((kind, name) for kind in kinds) for name in limits.names]
        self._position: list[float] = []
        self._speed = [0.0] * len(limits.names)
        self._target = [0.0] * len(limits.names)

    def start(self, measured: Sequence[float] | np.ndarray) -> None:
        """Begin (again) from where the arm is, standing still."""
        position = np.array(measured, dtype=np.float64)
        if position.shape != (len(self.limits.names),) or not np.isfinite(position).all():
            raise ValueError(
                f"measured state: expected {len(self.limits.names)} finite positions of "
                f"{list(self.limits.names)}, found {position.tolist()}"
            )
        self.last = position
        self._position = position.tolist()
        self._target = position.tolist()
        self._speed = [0.0] * len(position)

    def fork(self) -> Guard:
        """A guard that goes on from here by itself; this one does not notice."""
        other = copy(self)  # lists and arrays are replaced on each step, never changed in place
        other.interventions = Counter()
        return other

    def rewind(self, earlier: Guard) -> None:
        """Go on from where a ``fork`` of this guard stands; what was stepped since was not sent."""
        self.last, self._position = earlier.last, earlier._position
        self._speed, self._target = earlier._speed, earlier._target

    def slow(self, ticks: int) -> None:
        """``ticks`` went by in which the robot held the last command: it was slowing down."""
        self._speed = [
            math.copysign(max(abs(speed) - ticks * bounds.slew, 0.0), speed)
            for speed, bounds in zip(self._speed, self._bounds, strict=True)
        ]

    def stop(self) -> None:
        """Forget the last command; the next one needs ``start``."""
        self.last = None
        self._speed = [0.0] * len(self._speed)

    @property
    def velocity(self) -> np.ndarray:
        """Of the last command [J], a second."""
        return np.array(self._speed)

    @property
    def standing(self) -> bool:
        return self.last is None or not any(self._speed)

    def step(self, target: np.ndarray) -> tuple[np.ndarray, bool]:
        """Target [J] -> (command [J], whether it was changed)."""
        self._need_start()
        goals = target.tolist()
        if not all(map(math.isfinite, goals)):
            for name, goal in zip(self.limits.names, goals, strict=True):
                if not math.isfinite(goal):
                    self.interventions["non_finite", name] += 1
            self.limited_ticks += 1
            return self.brake(), True
        speeds, inside = [], []
        for i, bounds in enumerate(self._bounds):
            goal = goals[i]
            if not bounds.lower <= goal <= bounds.upper:
                goal = bounds.lower if goal < bounds.lower else bounds.upper
            inside.append(goal)
            speeds.append(bounds.approach(self._position[i], self._speed[i], goal, self._target[i]))
        if self.workspace is not None and self._leaves(self.workspace, speeds):
            self.limited_ticks += 1
            return self.brake(), True
        before, speed_before, self._target = self._position, self._speed, inside
        command = self._emit(speeds)
        limited = False
        for i, bounds in enumerate(self._bounds):
            if abs(self._position[i] - goals[i]) > _EPS:
                limited = True
                wanted = (inside[i] - before[i]) / self.period
                self._count(i, bounds, goals[i], wanted, speed_before[i])
        self.limited_ticks += limited
        return command, limited

    def _count(self, i: int, bounds: _Bounds, goal: float, wanted: float, speed: float) -> None:
        """Name every limit that the wanted speed of a changed joint is beyond."""
        counts, (position, velocity, acceleration) = self.interventions, self._kinds[i]
        named = False
        if not bounds.lower - _EPS <= goal <= bounds.upper + _EPS:
            counts[position] += 1
            named = True
        if abs(wanted) > bounds.velocity + _EPS:
            counts[velocity] += 1
            named = True
        # What is left is a step too sharp now, or one that could not be braked in time later.
        if not named or abs(wanted - speed) > bounds.slew + _EPS:
            counts[acceleration] += 1

    def brake(self) -> np.ndarray:
        """Decelerate at the acceleration limit, then stand: command [J]."""
        self._need_start()
        command = self._emit(
            [
                math.copysign(max(abs(speed) - bounds.slew, 0.0), speed)
                for speed, bounds in zip(self._speed, self._bounds, strict=True)
            ]
        )
        self._target = self._position
        return command

    def _emit(self, speeds: list[float]) -> np.ndarray:
        position = []
        for i, bounds in enumerate(self._bounds):
            now = self._position[i]
            at = now + speeds[i] * self.period
            if not bounds.lower <= at <= bounds.upper:
                # Rounding alone may leave the limits by an ulp; from outside only inwards.
                at = max(min(at, max(bounds.upper, now)), min(bounds.lower, now))
            position.append(at)
        self._position, self._speed = position, speeds
        self.last = np.array(position)
        return self.last

    def _leaves(self, workspace: Workspace, speeds: list[float]) -> bool:
        """Whether a step at these speeds leads out of the box, or farther out of it."""
        speed = np.array(speeds)
        last = np.array(self._position)
        command = last + speed * self.period
        rest = command + np.sign(speed) * speed**2 / (2.0 * self.limits.acceleration)
        allowed = workspace.excess(last) + _EPS
        out = np.maximum(workspace.excess(command), workspace.excess(rest)) > allowed
        for axis in np.flatnonzero(out):
            self.interventions["workspace", AXES[axis]] += 1
        return bool(out.any())

    def _need_start(self) -> None:
        if self.last is None:
            raise RuntimeError("guard: start(measured) comes before the first command")


class _Bounds:
    """Limits of one joint at one control period. slew: most change of speed in a tick."""

    __slots__ = ("_half", "_twice", "lower", "period", "slew", "upper", "velocity")

    def __init__(
        self, lower: float, upper: float, velocity: float, acceleration: float, period: float
    ) -> None:
        self.lower, self.upper, self.velocity, self.period = lower, upper, velocity, period
        self.slew = acceleration * period
        self._half, self._twice = 0.5 * self.slew, 2.0 * acceleration

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
