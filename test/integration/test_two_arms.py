# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Two handoff_nodes in one domain, each in its robot's namespace, do not notice each other."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from node_rig import POSTURE, Rig, joints
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from phyai_ros.control.chunk import Chunk
from phyai_ros.msg import ActionChunk, HandoffState, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.handoff_node import HandoffNode

DOMAIN = 69
NAMES, START = tuple(POSTURE), np.array(list(POSTURE.values()))
ROBOT = """
extends: ur10e
joint_state_topics: [joint_states]
output: {type: forward_command, topic: commands}
"""


class Arm(Rig):
    """One of the two, with its driver and its policy, whose chunks stand ``off`` from START."""

    def __init__(self, name: str, off: float, robot: str) -> None:
        self.off = off
        self.state, self.commands = HandoffState(), []
        make = partial(HandoffNode, namespace=name)
        super().__init__(make, DOMAIN, robot=robot, realtime_priority=0, request_timeout=0.3)
        listen, publish = self.test.create_subscription, self.test.create_publisher
        listen(HandoffState, f"/{name}/phyai/handoff_state", self._on_state, qos.handoff_state())
        listen(InferenceRequest, f"/{name}/phyai/request", self._answer, qos.request())
        listen(Float64MultiArray, f"/{name}/commands", self.commands.append, 100)
        self._chunks = publish(ActionChunk, f"/{name}/phyai/chunk", qos.chunk())
        self._joints = publish(JointState, f"/{name}/joint_states", qos.joint_states())
        self.test.create_timer(0.02, self._say_joints)

    def _on_state(self, message: HandoffState) -> None:
        self.state = message

    def _say_joints(self) -> None:
        message = joints()
        message.header.stamp = self.test.get_clock().now().to_msg()
        self._joints.publish(message)

    def _answer(self, request: InferenceRequest) -> None:
        now = convert.ns_to_seconds(self.test.get_clock().now().nanoseconds)
        rows = np.tile(START + self.off, (16, 1))
        chunk = Chunk(request.request_id, request.epoch, now, NAMES, 0.05, rows)
        self._chunks.publish(convert.fill_chunk(ActionChunk(), chunk, {}))


@pytest.fixture
def arms(tmp_path):
    robot = tmp_path / "arm.yaml"
    robot.write_text(ROBOT)
    made = [Arm(name, off, str(robot)) for name, off in (("left", 0.01), ("right", -0.01))]
    yield made
    for arm in made:
        arm.close()


def test_each_goes_its_own_way(arms):
    for arm in arms:
        arm.until(lambda arm=arm: arm.state.state == HandoffState.EXECUTING, "execution")
    for arm in arms:
        sent = len(arm.commands)
        arm.until(lambda arm=arm, sent=sent: len(arm.commands) > sent + 40, "commands")
        off = np.array(arm.commands[-1].data) - START
        np.testing.assert_allclose(off, arm.off, atol=1e-9)
        # A machine beside itself may starve it for a tick.
        arm.until(lambda arm=arm: arm.state.state == HandoffState.EXECUTING, "execution again")
        arm.until_says("publishers", "ok")
