# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The last gate before the arm: finite, position, velocity and acceleration limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
        self.velocity = np.zeros(len(limits.names))
        self._target = np.zeros(len(limits.names))
        self._slew = limits.acceleration * period
        self._half = 0.5 * self._slew
        self._twice = 2.0 * limits.acceleration

    def start(self, measured: Sequence[float] | np.ndarray) -> None:
        """Begin (again) from where the arm is, standing still."""
        position = np.array(measured, dtype=np.float64)
        if position.shape != self.velocity.shape or not np.isfinite(position).all():
            raise ValueError(
                f"measured state: expected {len(self.limits.names)} finite positions of "
                f"{list(self.limits.names)}, found {position.tolist()}"
            )
        self.last = position
        self._target = position
        self.velocity = np.zeros_like(position)

    def stop(self) -> None:
        """Forget the last command; the next one needs ``start``."""
        self.last = None
        self.velocity = np.zeros_like(self.velocity)

    @property
    def standing(self) -> bool:
        return self.last is None or not self.velocity.any()

    def step(self, target: np.ndarray) -> tuple[np.ndarray, bool]:
        """Target [J] -> (command [J], whether it was changed)."""
        last = self._need_start()
        if not np.isfinite(target).all():
            self._count("non_finite", ~np.isfinite(target))
            self.limited_ticks += 1
            return self.brake(), True
        limits, dt = self.limits, self.period
        inside = np.minimum(np.maximum(target, limits.lower), limits.upper)
        wanted = (inside - last) / dt
        # Approaching faster than the target moves is allowed only while it can still be braked in
        # the distance left; a target that is merely followed is never slowed by this.
        moving = (inside - self._target) / dt
        moving = np.minimum(np.maximum(moving, -limits.velocity), limits.velocity)
        self._target = inside
        reach = self._stoppable(np.abs(inside - last))
        speed = np.minimum(
            np.maximum(wanted, np.minimum(moving - reach, 0.0)), np.maximum(moving + reach, 0.0)
        )
        capped = np.minimum(np.maximum(speed, -limits.velocity), limits.velocity)
        least, most = self.velocity - self._slew, self.velocity + self._slew
        slewed = np.minimum(np.maximum(capped, least), most)
        before = self.velocity
        command, held = self._emit(last, slewed)
        if self.workspace is not None and self._leaves(self.workspace, last):
            self.last, self.velocity = last, before
            self.limited_ticks += 1
            return self.brake(), True
        changed = np.abs(command - target) > _EPS
        limited = bool(changed.any())
        if limited:
            self.limited_ticks += 1
            self._count("position", (np.abs(inside - target) > _EPS) | held)
            self._count("velocity", np.abs(wanted) > limits.velocity + _EPS)
            braked, lagged = np.abs(speed - wanted) > _EPS, np.abs(slewed - capped) > _EPS
            self._count("acceleration", braked | lagged)
        return command, limited

    def brake(self) -> np.ndarray:
        """Decelerate at the acceleration limit, then stand: command [J]."""
        last = self._need_start()
        slower = np.maximum(np.abs(self.velocity) - self._slew, 0.0)
        command, _ = self._emit(last, np.sign(self.velocity) * slower)
        self._target = command
        return command

    def _leaves(self, workspace: Workspace, last: np.ndarray) -> bool:
        """Whether the step just made leads out of the box, or farther out of it."""
        assert self.last is not None
        slew = self.limits.acceleration
        rest = self.last + np.sign(self.velocity) * self.velocity**2 / (2.0 * slew)
        allowed = workspace.excess(last) + _EPS
        out = np.maximum(workspace.excess(self.last), workspace.excess(rest)) > allowed
        for axis in np.flatnonzero(out):
            self.interventions["workspace", AXES[axis]] += 1
        return bool(out.any())

    def _need_start(self) -> np.ndarray:
        if self.last is None:
            raise RuntimeError("guard: start(measured) comes before the first command")
        return self.last

    def _stoppable(self, distance: np.ndarray) -> np.ndarray:
        """Greatest speed this tick from which slewing stops within ``distance`` (>= 0).

        Moving u*dt now and slewing by a*dt a tick needs at most (u + a*dt/2)^2 / (2a) in all; at
        u <= a*dt the arm stands on the next tick, so only u*dt counts.
        """
        return np.maximum(
            np.sqrt(self._twice * distance) - self._half,
            np.minimum(self._slew, distance / self.period),
        )

    def _emit(self, last: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        limits = self.limits
        up = self._stoppable(np.maximum(limits.upper - last, 0.0))
        down = self._stoppable(np.maximum(last - limits.lower, 0.0))
        safe = np.maximum(np.minimum(speed, up), -down)
        command = last + safe * self.period
        # Rounding alone may leave the limits by an ulp; from outside, keep the way inwards.
        command = np.minimum(command, np.maximum(limits.upper, last))
        command = np.maximum(command, np.minimum(limits.lower, last))
        self.last, self.velocity = command, safe
        return command, np.abs(safe - speed) > _EPS

    def _count(self, kind: str, mask: np.ndarray) -> None:
        for i in np.flatnonzero(mask):
            self.interventions[kind, self.limits.names[i]] += 1
