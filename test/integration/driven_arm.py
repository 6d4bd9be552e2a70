# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node's process, and the policy and the robot for it: chunks that drive one joint at a
speed, an arm that follows every command."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import rclpy
from node_rig import POSTURE, joints
from rclpy.context import Context
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from spinning import SpinningNode
from std_msgs.msg import Float64MultiArray

from phyai_ros.control.chunk import Chunk
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import convert, qos

PATIENCE = 60.0
NAMES = tuple(POSTURE)
PAN = NAMES.index("shoulder_pan_joint")
STEP, HORIZON = 0.05, 16


class Driven:
    """robot: for the node. speed: rad/s of the shoulder's pan. commands: (sequence number,
    positions). senders: gids of the publishers that they came from."""

    def __init__(self, robot: str, domain: int, speed: float) -> None:
        self.speed, self._domain = speed, domain
        self.senders: set[bytes] = set()
        self.commands: list[tuple[int, np.ndarray]] = []
        self._posture = np.array(list(POSTURE.values()))
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=domain)
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
        self.process = self.start(robot)

    def start(self, robot: str) -> subprocess.Popen[str]:
        """A handoff_node in this domain."""
        words = ["-p", f"robot:={robot}", "-p", "instruction:=reach the red block"]
        return subprocess.Popen(
            [sys.executable, "-m", "phyai_ros.nodes.handoff_node", "--ros-args", *words],
            env={**os.environ, "ROS_DOMAIN_ID": str(self._domain)},
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
        self.senders.add(bytes(info["publisher_gid"]["data"]))
        self.commands.append((info["publication_sequence_number"], self._posture))

    def _on_request(self, request: InferenceRequest) -> None:
        rows = np.tile(self._posture, (HORIZON, 1))
        rows[:, PAN] += self.speed * STEP * np.arange(HORIZON)
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

    def until_moving(self) -> None:
        """At most of the speed."""
        end = time.monotonic() + PATIENCE
        while len(self.commands) < 3 or self.speeds()[0][-1, PAN] < 0.8 * self.speed:
            assert time.monotonic() < end, f"not moving: {[c[PAN] for _, c in self.commands[-5:]]}"
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.005)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.node.close()
        self.context.try_shutdown()
