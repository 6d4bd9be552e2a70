# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The last gate before the arm: finite, position, velocity and acceleration limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from phyai_ros.control.bounds import Bounds
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
            Bounds(
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
        self._back: list[float] | None = None

    def start(self, measured: Sequence[float] | np.ndarray) -> None:
        """Begin (again) from where the arm is, standing still. measured: [joints], robot units.
        Raises ValueError for any other shape and for what is not finite."""
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
        self._back = None

    def fork(self) -> Guard:
        """A guard that goes on from here by itself; this one does not notice."""
        other = copy(self)  # lists and arrays are replaced on each step, never changed in place
        other.interventions = Counter()
        return other

    def rewind(self, earlier: Guard) -> None:
        """Go on from where a ``fork`` of this guard stands; what was stepped since was not sent."""
        self.last, self._position = earlier.last, earlier._position
        self._speed, self._target = earlier._speed, earlier._target
        self._back = earlier._back

    def slow(self, ticks: int) -> None:
        """``ticks`` went by in which the robot held the last command: it was slowing down."""
        self._speed = [
            bounds.braked(speed, ticks)
            for speed, bounds in zip(self._speed, self._bounds, strict=True)
        ]

    def give_way(self, to: np.ndarray) -> None:
        """From now on ``brake`` takes each joint back to where ``to`` [J] has a number, within the
        limits, and brakes the others: an arm that is stopped short of its commands is pressed no
        longer against what stops it. Ends there, at the next ``step``, or at the workspace's side.
        """
        self._need_start()
        limits = self.limits
        self._back = np.clip(to, limits.lower, limits.upper).tolist()

    def stop(self) -> None:
        """Forget the last command; the next one needs ``start``."""
        self.last, self._back = None, None
        self._speed = [0.0] * len(self._speed)

    @property
    def velocity(self) -> np.ndarray:
        """Of the last command [J], a second."""
        return np.array(self._speed)

    @property
    def standing(self) -> bool:
        return self.last is None or (self._back is None and not any(self._speed))

    def step(self, target: np.ndarray) -> tuple[np.ndarray, bool]:
        """Target [J] -> (command [J], whether it was changed)."""
        self._need_start()
        self._back = None
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

    def _count(self, i: int, bounds: Bounds, goal: float, wanted: float, speed: float) -> None:
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
        """Decelerate at the acceleration limit, then stand: command [J]. See ``give_way``."""
        self._need_start()
        command = self._emit(
            self._returning()
            or [b.braked(speed) for speed, b in zip(self._speed, self._bounds, strict=True)]
        )
        self._target = self._position
        return command

    def _returning(self) -> list[float] | None:
        """Speeds of this tick on the way back, None where there is none, or its end is reached."""
        if self._back is None:
            return None
        speeds = [
            bounds.braked(speed)
            if math.isnan(goal) or abs(goal - at) <= _EPS
            else bounds.approach(at, speed, goal, goal)
            for at, speed, goal, bounds in zip(
                self._position, self._speed, self._back, self._bounds, strict=True
            )
        ]
        arrived = not any(speeds) and not any(self._speed)
        if arrived or (self.workspace is not None and self._leaves(self.workspace, speeds)):
            self._back = None
            return None
        return speeds

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
