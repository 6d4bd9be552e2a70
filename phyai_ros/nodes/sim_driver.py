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
from phyai_ros.nodes.topics import BOOL
from phyai_ros.robots.parts import Output
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

    robot: whose outputs of type joint_trajectory are played, each by a controller of its own; Bool
    topics of its ``ready`` are published, others are not this simulator's to say. joints: the order
    of measurements; an output may have fewer. Raises ValueError for joints that are not there.
    """

    def __init__(
        self, node: Any, robot: Robot, joints: Sequence[str], refused: Callable[[str], None]
    ) -> None:
        self._node = node
        self.running = True
        """Whether the robot takes commands: what the parameter program_running said last."""
        self._players = [
            _Controller(node, robot, output, names, joints, refused)
            for output, names in robot.outputs
            if output.type == "joint_trajectory"
        ]
        self._said = -1.0
        self._told: bool | None = None
        self._full = robot.speed_scaling.full if robot.speed_scaling else 100.0
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
            if ready.type == BOOL
        ]

    def restart(self) -> None:
        """The arm stands elsewhere: every controller starts anew from there."""
        for player in self._players:
            player.active = False

    def step(self, seconds: float, now: float, measured: np.ndarray) -> Goals | None:
        """Advance by so many seconds: joints of trajectory outputs and their goals, or None while
        none is commanded. now: seconds since the start. measured: [joints]."""
        scaling = float(SPEED_SCALING.check(self._node.get_parameter("speed_scaling").value))
        self.running = bool(self._node.get_parameter("program_running").value)
        self._say(now, scaling if self.running else 0.0)
        goals: Goals = {}
        for player in self._players:
            goals |= player.step(seconds * scaling / 100.0, measured, self.running)
        return goals or None

    def _say(self, now: float, scaling: float) -> None:
        if self._speed is not None and now - self._said >= _SAY_EVERY:
            self._said = now
            self._speed.publish(Float64(data=scaling / 100.0 * self._full))
        if self.running != self._told:
            self._told = self.running
            for publisher in self._ready:
                publisher.publish(Bool(data=self.running))

    def destroy(self) -> None:
        for player in self._players:
            player.destroy()
        for publisher in (self._speed, *self._ready):
            if publisher is not None:
                self._node.destroy_publisher(publisher)


class _Controller:
    """A joint_trajectory_controller of one output; arguments as SimDriver's."""

    def __init__(
        self,
        node: Any,
        robot: Robot,
        output: Output,
        names: Sequence[str],
        joints: Sequence[str],
        refused: Callable[[str], None],
    ) -> None:
        unknown = [name for name in names if name not in joints]
        if unknown:
            raise ValueError(
                f"{robot.source}: output {output.topic}: joints: the simulator has "
                f"{', '.join(joints)}, found {', '.join(unknown)}"
            )
        self.active = False
        self._node, self._refused = node, refused
        self._player = TrajectoryPlayer(names)
        self._back = [joints.index(name) for name in names]
        self._inbox: deque[JointTrajectory] = deque()
        self._subscription = node.create_subscription(
            JointTrajectory, output.topic, self._on_trajectory, qos.command()
        )

    def _on_trajectory(self, message: JointTrajectory) -> None:
        self._inbox.append(message)

    def step(self, seconds: float, measured: np.ndarray, running: bool) -> Goals:
        """seconds: by which its trajectory goes on. Empty while it plays none."""
        if not running:
            self.active = False
            self._inbox.clear()
            return {}
        if not self.active:
            self.active = True
            self._player.start(measured[self._back])
            self._inbox.clear()  # sent to the controller that was active before
        while self._inbox:
            self._take(self._inbox.popleft())
        if not self._player.playing:
            return {}
        goals = self._player.advance(seconds)
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

    def destroy(self) -> None:
        self._node.destroy_subscription(self._subscription)
