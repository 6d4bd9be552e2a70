# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a trajectory controller is told when the robot takes no commands any more."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.nodes.joint_trajectory import JointTrajectoryOutput
from phyai_ros.nodes.outputs import Several
from phyai_ros.robots.parts import Output

NAMES, PERIOD = ("pan", "lift"), 0.05


class Controller:
    """The node's part that an output uses; ``sent`` holds the positions of each trajectory."""

    def __init__(self) -> None:
        self.sent: list[np.ndarray] = []

    def create_publisher(self, kind, topic, profile):
        return SimpleNamespace(topic_name=topic, publish=self._hear)

    def _hear(self, message) -> None:
        self.sent.append(np.array([point.positions for point in message.points]))


@pytest.fixture
def moving():
    """An arm in the middle of a plan, its output and its controller."""
    limits = Limits(NAMES, [-3, -3], [3, 3], [1, 1], [8, 8])
    handoff = Handoff(limits, HandoffConfig(PERIOD, 8))
    controller = Controller()
    output = JointTrajectoryOutput(
        controller, Output(type="joint_trajectory", topic="/jtc"), NAMES, handoff
    )
    handoff.tick(100.0, np.zeros(2))
    request = handoff.request(100.0)
    rows = np.outer(np.arange(16), [0.01, 0.01])
    handoff.accept(Chunk(request.request_id, request.epoch, 100.0, NAMES, PERIOD, rows))
    for k in range(1, 5):
        command = handoff.tick(100.0 + k * PERIOD, np.zeros(2))
        output.publish(command.positions)
    return output, controller


def test_the_controllers_plan_is_replaced_by_standing_where_the_arm_is(moving):
    output, controller = moving
    assert output.let_go(np.array([0.02, 0.01]))
    np.testing.assert_allclose(controller.sent[-1], [[0.02, 0.01]])


@pytest.mark.parametrize("measured", [np.array([57.3, 0.01]), np.array([0.02, np.nan]), None])
def test_a_measurement_that_cannot_be_is_no_command(moving, measured):
    """Degrees, or an encoder that failed together with the rest: the arm would go there as soon as
    it takes commands again. What is in store is replaced when it is known where the arm is."""
    output, controller = moving
    before = len(controller.sent)
    assert not output.let_go(measured)
    assert not output.let_go(measured)
    assert len(controller.sent) == before
    assert output.let_go(np.array([0.02, 0.01]))
    np.testing.assert_allclose(controller.sent[before:], [[[0.02, 0.01]]])
    assert output.let_go(np.array([0.5, 0.5]))
    assert len(controller.sent) == before + 1


def test_what_is_commanded_again_is_sent_again(moving):
    output, controller = moving
    before = len(controller.sent)
    command = output._due()
    output.publish(command)
    assert len(controller.sent) == before  # the trajectory says so already
    assert not Several([output, output]).let_go(None)
    output.publish(command)
    assert len(controller.sent) == before + 1
