# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the handoff will do if nothing new comes, and the speeds of a curve through it."""

from __future__ import annotations

from copy import copy

import numpy as np

from phyai_ros.control.chunk import Plan
from phyai_ros.control.guard import Guard
from phyai_ros.control.ramp import Ramp


def preview(guard: Guard, ramp: Ramp, plan: Plan | None, tick: int) -> np.ndarray:
    """Commands of the ticks after ``tick``: [n, joints], possibly none. First what is left of the
    plan, ramped and guarded as it will be, then braking; the last one is of a standing arm.

    plan: None when the arm is braking. Nothing that is passed in changes.
    """
    if guard.last is None:
        return np.zeros((0, len(guard.limits.names)))
    guard, ramp = guard.fork(), copy(ramp)
    commands = []
    if plan is not None:
        for at in range(tick + 1, plan.end):
            row = plan.row(at)
            assert row is not None
            commands.append(guard.step(ramp.blend(row, at))[0])
    while not guard.standing:
        commands.append(guard.brake())
    return np.array(commands).reshape(-1, len(guard.limits.names))


def knot_velocities(points: np.ndarray, arriving: np.ndarray, period: float) -> np.ndarray:
    """Speeds at which to pass points that are ``period`` seconds apart: [n, J] -> [n, J], the last
    zero. arriving: [J], speed of the step that leads to the first point.

    A cubic through the points with these speeds stays between neighbouring points, so it never
    leaves position limits that the points keep, and a gripper's step does not swing. Source:
    Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5 (1984): the harmonic mean of both slopes,
    zero where their signs differ. A knot's speed is never above the greater slope.
    """
    slopes = np.vstack([arriving, np.diff(points, axis=0) / period])
    before, after = slopes[:-1], slopes[1:]
    velocities = np.zeros_like(points, dtype=np.float64)
    same = before * after > 0.0
    np.divide(2.0 * before * after, before + after, out=velocities[:-1], where=same)
    return velocities
