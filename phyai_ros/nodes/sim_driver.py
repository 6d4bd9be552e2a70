# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The simulated arm behind a real driver's topics: trajectories in, speed and readiness out.

So that the very YAML that will drive an arm can be rehearsed, slowed down and stopped, before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from std_msgs.msg import Bool, Float64
from trajectory_msgs.msg import JointTrajectory

from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.params import Parameter
from phyai_ros.nodes.sim_inputs import Goals
from phyai_ros.robots.robot import Robot
from phyai_ros.sim.trajectory_player import TrajectoryPlayer, TrajectoryRefused

SPEED_SCALING = Parameter(
    "speed_scaling",
    100.0,
    "percent, of a robot with that topic: the speed slider; 0 pauses",
    low=0.0,
    high=100.0,
    read_only=False,
)
PROGRAM_RUNNING = Parameter(
    "program_running",
    True,
    "of a robot with such a topic: false is what a protective stop does",
    read_only=False,
)
PARAMETERS = (SPEED_SCALING, PROGRAM_RUNNING)
_SAY_EVERY = 0.05


class SimDriver:
    """``step`` runs on the physics thread, messages come on the executor's.

    robot: whose output is a joint trajectory; Bool topics of its ``ready`` are published, others
    are not this simulator's to say. joints: the order of measurements; the output may have fewer,
    where a gripper has a controller of its own.
    """

    def __init__(
        self, node: Any, robot: Robot, joints: Sequence[str], refused: Callable[[str], None]
    ) -> None:
        self._node = node
        self._refused = refused
        self._player = TrajectoryPlayer(robot.output_joints)
        unknown = [name for name in robot.output_joints if name not in joints]
        if unknown:
            raise ValueError(
                f"{robot.source}: output.joints: the simulator has {', '.join(joints)}, "
                f"found {', '.join(unknown)}"
            )
        self._back = [joints.index(name) for name in robot.output_joints]
        self._inbox: deque[JointTrajectory] = deque()
        self._active = False
        self._said = -1.0
        self._running: bool | None = None
        self._full = robot.speed_scaling.full if robot.speed_scaling else 100.0
        self._subscription = node.create_subscription(
            JointTrajectory, robot.output.topic, self._on_trajectory, qos.command()
        )
        self._speed = None
        if robot.speed_scaling is not None:
            self._speed = node.create_publisher(
                Float64, robot.speed_scaling.topic, qos.handoff_state()
            )
        self._ready = [
            node.create_publisher(
                Bool, ready.topic, qos.robot_status() if ready.latched else qos.handoff_state()
            )
            for ready in robot.ready.values()
            if ready.type == "std_msgs/msg/Bool"
        ]

    def _on_trajectory(self, message: JointTrajectory) -> None:
        self._inbox.append(message)

    def restart(self) -> None:
        """The arm stands elsewhere: the controller starts anew from there."""
        self._active = False

    def step(self, seconds: float, now: float, measured: np.ndarray) -> Goals | None:
        """Advance by so many seconds: the output's joints and their goals, or None while nothing is
        commanded. now: seconds since the start. measured: [joints]."""
        scaling = float(SPEED_SCALING.check(self._node.get_parameter("speed_scaling").value))
        running = bool(self._node.get_parameter("program_running").value)
        self._say(now, scaling if running else 0.0, running)
        if not running:
            self._active = False
            self._inbox.clear()
            return None
        if not self._active:
            self._active = True
            self._player.start(measured[self._back])
            self._inbox.clear()  # sent to the controller that was active before
        while self._inbox:
            self._take(self._inbox.popleft())
        if not self._player.playing:
            return None
        goals = self._player.advance(seconds * scaling / 100.0)
        return dict(zip(self._player.joints, goals.tolist(), strict=True))

    def _take(self, message: JointTrajectory) -> None:
        points = message.points
        try:
            self._player.accept(
                message.joint_names,
                [convert.ns_to_seconds(convert.stamp_to_ns(p.time_from_start)) for p in points],
                [p.positions for p in points],
                [p.velocities for p in points],
            )
        except TrajectoryRefused as refusal:
            self._refused(str(refusal))

    def _say(self, now: float, scaling: float, running: bool) -> None:
        if self._speed is not None and now - self._said >= _SAY_EVERY:
            self._said = now
            self._speed.publish(Float64(data=scaling / 100.0 * self._full))
        if running != self._running:
            self._running = running
            for publisher in self._ready:
                publisher.publish(Bool(data=running))

    def destroy(self) -> None:
        self._node.destroy_subscription(self._subscription)
        for publisher in (self._speed, *self._ready):
            if publisher is not None:
                self._node.destroy_publisher(publisher)
