# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The scripted expert in the place of policy_node: a process that answers requests over real DDS.

It knows the block's place from the seed; the arm it knows from /joint_states, like any policy.
"""

from __future__ import annotations

import json
import math
import sys
import time

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from phyai_ros.control.chunk import Chunk
from phyai_ros.engine.types import STAGES
from phyai_ros.msg import ActionChunk, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.sim import expert, world
from phyai_ros.sim import kinematics as kin


class ExpertPolicy(Node):
    """argv: seconds that an answer takes, from the joints that it is for."""

    def __init__(self, seconds: float) -> None:
        super().__init__("expert_policy")
        self._seconds = seconds
        self._asked: InferenceRequest | None = None
        self._block: np.ndarray | None = None
        self._chunks = self.create_publisher(ActionChunk, "phyai/chunk", qos.chunk())
        self.create_subscription(JointState, "joint_states", self._on_joints, qos.joint_states())
        self.create_subscription(String, "sim/episode", self._on_episode, qos.episode())
        self.create_subscription(InferenceRequest, "phyai/request", self._on_request, qos.request())

    def _on_episode(self, message: String) -> None:
        event = json.loads(message.data)
        if event["event"] == "start":
            state = world.make(seed=event["seed"]).state()
            self._block = np.array(state.blocks[event["target"]][:2])

    def _on_request(self, message: InferenceRequest) -> None:
        self._asked = message

    def _on_joints(self, message: JointState) -> None:
        """The first ones that the request allows are what the answer is for."""
        asked = self._asked
        if asked is None or self._block is None:
            return  # which episode it is may be heard after the first request
        if convert.stamp_to_ns(message.header.stamp) < convert.stamp_to_ns(asked.header.stamp):
            return
        self._asked, began = None, time.monotonic()

        def answer() -> None:
            self.destroy_timer(timer)
            self._answer(asked, message, began)

        timer = self.create_timer(max(self._seconds, 1e-3), answer)

    def _answer(self, request: InferenceRequest, joints: JointState, began: float) -> None:
        by_name = dict(zip(joints.name, joints.position, strict=True))
        rows = expert.chunks(np.array([by_name[n] for n in kin.JOINTS]), self._block)
        chunk = Chunk(
            request_id=request.request_id,
            epoch=request.epoch,
            stamp=convert.stamp_to_ns(joints.header.stamp) / 1e9,
            joint_names=kin.JOINTS,
            step=0.05,
            positions=rows,
            policy="scripted expert",
            instruction=request.instruction,
        )
        stages = dict.fromkeys(STAGES, math.nan)
        stages["solver"] = time.monotonic() - began
        self._chunks.publish(convert.fill_chunk(ActionChunk(), chunk, stages))


def main() -> None:
    rclpy.init()
    node = ExpertPolicy(float(sys.argv[1]))
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
