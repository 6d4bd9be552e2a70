# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What went out to the robot, tick by tick, whichever kind of message carried it. No rclpy: a
replay reads bags with it, the report what it heard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from phyai_ros.robots import wiring
from phyai_ros.robots.parts import Output
from phyai_ros.robots.robot import Robot


class Outlet:
    """One output, followed. joints: names of its columns. lasting: what was sent holds for later
    ticks too, until other is sent: a trajectory."""

    def __init__(self, joints: Sequence[str], *, lasting: bool = False) -> None:
        self.joints = tuple(joints)
        self.lasting = lasting
        self._rows: np.ndarray | None = None
        self._first: int | None = None

    def heard(self, rows: np.ndarray) -> None:
        """rows: float64 [n, joints]; the first is the command of the tick that comes next, the
        others of the ticks after it."""
        self._rows, self._first = rows, None

    def tick(self, number: int) -> np.ndarray | None:
        """The command of a tick: [joints], None where none is known. number: of the tick, missed
        ones counted."""
        if self._rows is None:
            return None
        if self._first is None:
            self._first = number
        row = self._rows[min(max(number - self._first, 0), len(self._rows) - 1)]
        if not self.lasting:
            self._rows = None
        return row


@dataclass(frozen=True)
class Way:
    """Where an output's messages are. type: package/msg/Name. read: message -> rows as ``heard``
    takes them; raises ValueError."""

    topic: str
    type: str
    joints: tuple[str, ...]
    lasting: bool
    read: Callable[[Any], np.ndarray]

    def outlet(self) -> Outlet:
        return Outlet(self.joints, lasting=self.lasting)


def ways(robot: Robot) -> tuple[Way, ...]:
    """Every output of a robot, in the order of ``robot.outputs``."""
    return tuple(_way(output, tuple(joints)) for output, joints in robot.outputs)


def forward(topic: str, joints: Sequence[str]) -> Way:
    """A forward_command output."""
    read = partial(read_forward, tuple(joints))
    return Way(topic, wiring.COMMANDS["forward_command"], tuple(joints), False, read)


def _way(output: Output, joints: tuple[str, ...]) -> Way:
    if output.type == "forward_command":
        return forward(output.topic, joints)
    if output.type == "joint_trajectory":
        read = partial(read_trajectory, joints)
        return Way(output.topic, wiring.COMMANDS[output.type], joints, True, read)
    read = partial(read_named, joints, output.name)
    return Way(output.topic, wiring.COMMANDS[output.type], joints, False, read)


def read_forward(joints: Sequence[str], message: Any) -> np.ndarray:
    """std_msgs/Float64MultiArray -> [1, joints]. Raises ValueError."""
    return _one(joints, message.data)


def read_named(joints: Sequence[str], name: str, message: Any) -> np.ndarray:
    """Interbotix's group or single command -> [1, joints]. Raises ValueError."""
    if message.name != name:
        raise ValueError(f"expected the name {name!r}, found {message.name!r}")
    return _one(joints, np.atleast_1d(message.cmd))


def _one(joints: Sequence[str], values: Any) -> np.ndarray:
    row = np.array(values, np.float64)
    if row.shape != (len(joints),):
        raise ValueError(f"expected a position for each of {list(joints)}, found {row.size}")
    return row[None]


def read_trajectory(joints: Sequence[str], message: Any) -> np.ndarray:
    """trajectory_msgs/JointTrajectory -> [points, joints]. This package sends a point a tick.
    Raises ValueError."""
    names = list(message.joint_names)
    if sorted(names) != sorted(joints) or not len(message.points):
        raise ValueError(
            f"expected points of {list(joints)}, found {len(message.points)} of {names}"
        )
    if any(len(point.positions) != len(names) for point in message.points):
        raise ValueError(f"expected {len(names)} positions in every point")
    points = np.array([np.asarray(point.positions) for point in message.points], np.float64)
    return points[:, [names.index(name) for name in joints]]
