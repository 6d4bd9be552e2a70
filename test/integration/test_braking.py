# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A signal to handoff_node's process while the arm moves: its commands end at rest, within limits.

The test stands for policy and robot: over DDS it answers with chunks that drive one joint fast,
follows every command, and looks at all of them to the very last one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import rclpy
from node_rig import POSTURE, joints
from rclpy.context import Context
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from spinning import SpinningNode
from std_msgs.msg import Float64MultiArray

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import convert, qos

DOMAIN = 57
PATIENCE = 60.0
NAMES = tuple(POSTURE)
PAN = NAMES.index("shoulder_pan_joint")
SPEED = 1.6
"""rad/s; the limit is 2.09."""
STEP, HORIZON = 0.05, 16


class Driven:
    """A handoff_node process and the robot it drives. commands: (sequence number, positions)."""

    def __init__(self, robot: str) -> None:
        self.commands: list[tuple[int, np.ndarray]] = []
        self._posture = np.array(list(POSTURE.values()))
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=DOMAIN)
        self.node = SpinningNode(
            "stand_in", self.context, parameter_overrides=[Parameter("use_sim_time", value=False)]
        )
        make, listen = self.node.create_publisher, self.node.create_subscription
        self._joints = make(JointState, "/joint_states", qos.joint_states())
        self._chunks = make(ActionChunk, "phyai/chunk", qos.chunk())
        topic = "/forward_position_controller/commands"
        listen(Float64MultiArray, topic, self._on_command, 1000)
        listen(InferenceRequest, "phyai/request", self._on_request, qos.request())
        self.node.create_timer(0.02, self._on_timer)
        words = ["-p", f"robot:={robot}", "-p", "instruction:=reach the red block"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "phyai_ros.nodes.handoff_node", "--ros-args", *words],
            env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _on_timer(self) -> None:
        message = joints(dict(zip(NAMES, self._posture.tolist(), strict=True)))
        message.header.stamp = self.node.get_clock().now().to_msg()
        self._joints.publish(message)

    def _on_command(self, message: Float64MultiArray, info: dict) -> None:
        self._posture = np.array(message.data)
        self.commands.append((info["publication_sequence_number"], self._posture))

    def _on_request(self, request: InferenceRequest) -> None:
        rows = np.tile(self._posture, (HORIZON, 1))
        rows[:, PAN] += SPEED * STEP * np.arange(HORIZON)
        chunk = Chunk(
            request_id=request.request_id,
            epoch=request.epoch,
            stamp=convert.ns_to_seconds(self.node.get_clock().now().nanoseconds),
            joint_names=NAMES,
            step=STEP,
            positions=rows,
        )
        self._chunks.publish(convert.fill_chunk(ActionChunk(), chunk, {"solver": 0.01}))

    def speeds(self) -> tuple[np.ndarray, np.ndarray]:
        """Between two commands that came: [n, joints] in units a second, and how many ticks lay
        between them [n]; a command of depth 1 may be overwritten before it is heard."""
        numbers = np.array([number for number, _ in self.commands])
        positions = np.array([positions for _, positions in self.commands])
        ticks = np.diff(numbers)
        return np.diff(positions, axis=0) / (ticks[:, None] * STEP), ticks

    def until_fast(self) -> None:
        end = time.monotonic() + PATIENCE
        while len(self.commands) < 3 or self.speeds()[0][-1, PAN] < 0.8 * SPEED:
            assert time.monotonic() < end, f"never fast: {[c[PAN] for _, c in self.commands[-5:]]}"
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.005)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.node.close()
        self.context.try_shutdown()


@pytest.fixture
def drive():
    made: list[Driven] = []

    def start(robot: str) -> Driven:
        made.append(Driven(robot))
        return made[-1]

    yield start
    for driven in made:
        driven.close()


SLOW = "extends: ur10e\njoints: {shoulder_pan_joint: {acceleration: 1.6}}\n"
"""A second from SPEED to rest."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("slow", [False, True], ids=["ur10e", "an arm that brakes slowly"])
def test_the_last_command_of_a_signalled_node_is_at_rest(drive, tmp_path, number, slow):
    path = tmp_path / "arm.yaml"
    path.write_text(SLOW if slow else "extends: ur10e\n")
    driven, robot = drive(str(path)), robots.load(path)
    driven.until_fast()
    before = len(driven.commands)
    driven.process.send_signal(number)
    assert driven.process.wait(PATIENCE) == 0, driven.process.stdout.read()
    heard = -1
    while heard != len(driven.commands):  # what was on its way
        heard = len(driven.commands)
        time.sleep(0.2)
    said = driven.process.stdout.read()
    assert "MOVING" not in said, said
    assert heard > before + 2, "no command after the signal"
    speeds, ticks = driven.speeds()
    velocity = np.array([joint.velocity for joint in robot.joints.values()])
    acceleration = np.array([joint.acceleration for joint in robot.joints.values()])
    assert (np.abs(speeds) <= velocity + 1e-6).all()
    apart = STEP * (ticks[1:] + ticks[:-1])[:, None] / 2
    assert (np.abs(np.diff(speeds, axis=0)) <= acceleration * apart + 1e-6).all()
    np.testing.assert_array_equal(driven.commands[-1][1], driven.commands[-2][1])
