# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The rest of the plan as a trajectory, for ros2_controllers' joint_trajectory_controller."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from phyai_ros.control.chunk import Plan
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.preview import knot_velocities
from phyai_ros.nodes import convert, listeners, qos
from phyai_ros.robots.parts import Output

_EPS = 1e-9


def fill_trajectory(
    message: JointTrajectory,
    joints: Sequence[str],
    points: np.ndarray,
    velocities: np.ndarray,
    period: float,
) -> JointTrajectory:
    """points, velocities: [n, joints], robot units; point i is due (i + 1) * period seconds after
    the controller got the message.

    The stamp stays zero, which the controller reads as "now": with a time of ours it would refuse
    the trajectory, or start late, whenever the two machines' clocks differ.
    """
    message.joint_names = list(joints)
    message.points = []
    for i, (position, velocity) in enumerate(zip(points, velocities, strict=True)):
        # array.array is taken over as it is; any other sequence is checked number by number
        point = JointTrajectoryPoint(
            positions=array("d", position.tobytes()), velocities=array("d", velocity.tobytes())
        )
        due = convert.seconds_to_ns((i + 1) * period)
        convert.set_time(point.time_from_start, due)
        message.points.append(point)
    return message


class JointTrajectoryOutput:
    """trajectory_msgs/JointTrajectory whenever what was promised is no longer what will be done: a
    new chunk, a hold, a limit that the guard had to apply.

    A trajectory begins with this tick's command, one period away, goes on with what is left of the
    plan and ends with braking to a standstill. So if this process dies the arm comes to rest by
    itself, and the controller's ``allow_nonzero_velocity_at_trajectory_end`` (false since Iron)
    needs no change. The controller must interpolate between trajectories from its own desired
    state (``interpolate_from_desired_state``; Humble: ``open_loop_control``).
    """

    def __init__(self, node: Any, output: Output, joints: Sequence[str], handoff: Handoff) -> None:
        self._joints = list(joints)
        self._order = [handoff.names.index(name) for name in joints]
        self._handoff = handoff
        self._promised = np.zeros((0, len(handoff.names)))
        self._first = 0
        self._plan: Plan | None = None
        self._owing = False
        self._node = node
        self._publisher = node.create_publisher(JointTrajectory, output.topic, qos.command())
        self.topic = self._publisher.topic_name

    def publish(self, positions: np.ndarray) -> None:
        handoff = self._handoff
        tick, plan = handoff.tick_number, handoff.buffer.plan
        if not self._owing and plan is self._plan and self._keeps(positions, tick):
            return
        points = np.vstack([positions, handoff.ahead()])
        velocities = knot_velocities(points, handoff.guard.velocity, handoff.config.period)
        self._send(points, velocities)
        self._promised, self._first, self._plan = points, tick, plan
        self._owing = False

    def _keeps(self, positions: np.ndarray, tick: int) -> bool:
        """Whether the trajectory sent last already says this."""
        if not len(self._promised) or tick < self._first:
            return False
        return bool((np.abs(self._due() - positions) <= _EPS).all())

    def _due(self) -> np.ndarray:
        """What was promised for this tick: [joints]."""
        at = self._handoff.tick_number - self._first
        return self._promised[min(max(at, 0), len(self._promised) - 1)]

    def let_go(self, measured: np.ndarray | None) -> bool:
        """A controller paused in a trajectory would finish it when the robot comes back: put
        standing still in its place. Grippers keep their command: they may hold something. A
        measurement that cannot be is as none: then it is owed, until one comes or a plan does."""
        if measured is not None and self._handoff.guard.limits.wild(measured).any():
            measured = None
        if len(self._promised):
            self._owing = measured is None
            if measured is None:
                return False
            still = np.where(self._handoff.buffer.held, self._due(), measured)
            self._send(still[None], np.zeros((1, len(still))))
        self._promised, self._plan = self._promised[:0], None
        return True

    def _send(self, points: np.ndarray, velocities: np.ndarray) -> None:
        order = self._order
        self._publisher.publish(
            fill_trajectory(
                JointTrajectory(),
                self._joints,
                points[:, order],
                velocities[:, order],
                self._handoff.config.period,
            )
        )

    def trouble(self) -> str | None:
        return listeners.trouble(self._node, self._publisher, "is the robot's controller active?")

    def destroy(self) -> None:
        self._node.destroy_publisher(self._publisher)
