# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A joint trajectory controller as ros2_control's is: what it refuses, and how it plays.

Source of the rules: joint_trajectory_controller, validate_trajectory_msg, with the defaults of
Jazzy and later (no partial goals, zero velocity at the end), ``interpolate_from_desired_state`` on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_FLOAT_EPS = float(np.finfo(np.float32).eps)


class TrajectoryRefused(ValueError):  # noqa: N818
    """The text is what the controller would log."""


class TrajectoryPlayer:
    """joints: the controller's order. Positions and velocities are [J], a trajectory [n, J]."""

    def __init__(self, joints: Sequence[str]) -> None:
        self.joints = tuple(joints)
        self.playing = False
        self._times = np.zeros(0)
        self._points = np.zeros((0, len(self.joints)))
        self._velocities = self._points
        self._time = 0.0

    def start(self, position: np.ndarray) -> None:
        """Activate: stand here until a trajectory comes."""
        self.playing = False
        self._times = np.zeros(1)
        self._points = np.array(position, dtype=np.float64)[None]
        self._velocities = np.zeros_like(self._points)
        self._time = 0.0

    def accept(
        self,
        joints: Sequence[str],
        times: Sequence[float],
        positions: Sequence[Sequence[float]],
        velocities: Sequence[Sequence[float]],
    ) -> None:
        """Play this from now on. times: seconds from now. Raises TrajectoryRefused."""
        if not len(self._times):
            raise TrajectoryRefused("the controller is not active")
        if len(joints) != len(self.joints):
            raise TrajectoryRefused(
                "Joints on incoming trajectory don't match the controller joints: expected "
                f"{list(self.joints)}, found {list(joints)}"
            )
        if not len(times):
            raise TrajectoryRefused("Empty trajectory received.")
        for joint in joints:
            if joint not in self.joints:
                raise TrajectoryRefused(f"Incoming joint {joint} doesn't match the controller's.")
        before = 0.0
        for i, time in enumerate(times):
            if i and time <= before:
                raise TrajectoryRefused(
                    f"Time between points {i - 1} and {i} is not strictly increasing, "
                    f"it is {before} and {time} respectively"
                )
            before = time
            for what, rows in (("positions", positions), ("velocities", velocities)):
                if len(rows[i]) != len(joints) and (what == "positions" or len(rows[i])):
                    raise TrajectoryRefused(f"Point {i} has {len(rows[i])} {what}")
        if len(velocities[-1]) and np.abs(velocities[-1]).max() > _FLOAT_EPS:
            raise TrajectoryRefused("Velocity of last trajectory point is not zero")
        order = [list(joints).index(name) for name in self.joints]
        position, velocity = self.sample()
        self._times = np.array([0.0, *times])
        self._points = np.vstack([position, np.array(positions, dtype=np.float64)[:, order]])
        self._velocities = np.vstack([velocity, np.array(velocities, dtype=np.float64)[:, order]])
        self._time = 0.0
        self.playing = True

    def advance(self, seconds: float) -> np.ndarray:
        """The commanded position after so many seconds of the robot's own time."""
        self._time += seconds
        return self.sample()[0]

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Commanded position and velocity now, by cubic splines."""
        if self._time >= self._times[-1]:
            return self._points[-1], np.zeros(len(self.joints))
        i = int(np.searchsorted(self._times, self._time, side="right"))
        t0, t1 = self._times[i - 1], self._times[i]
        h, s = t1 - t0, (self._time - t0) / (t1 - t0)
        p0, p1 = self._points[i - 1], self._points[i]
        v0, v1 = h * self._velocities[i - 1], h * self._velocities[i]
        position = (
            (2 * s**3 - 3 * s**2 + 1) * p0
            + (s**3 - 2 * s**2 + s) * v0
            + (3 * s**2 - 2 * s**3) * p1
            + (s**3 - s**2) * v1
        )
        velocity = (
            (6 * s**2 - 6 * s) * (p0 - p1) + (3 * s**2 - 4 * s + 1) * v0 + (3 * s**2 - 2 * s) * v1
        ) / h
        return position, velocity
