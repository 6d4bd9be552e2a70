# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Interbotix' commands without its package: filled, read back, refused. With a package of that name
over real DDS: test/integration/test_aloha_nodes.py."""

import importlib.util
from array import array
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros import robots
from phyai_ros.nodes import interbotix
from phyai_ros.robots.parts import Output


@dataclass
class JointGroupCommand:
    name: str = ""
    cmd: array = field(default_factory=lambda: array("f"))


@dataclass
class JointSingleCommand:
    name: str = ""
    cmd: float = 0.0


ARM = Output(type="joint_group", topic="/follower_left/commands/joint_group", name="arm")
HAND = Output(type="joint_single", topic="/follower_left/commands/joint_single", name="gripper")


@given(st.lists(st.floats(-4.0, 4.0), min_size=1, max_size=8))
def test_a_group_is_read_back_as_float32(values):
    message = interbotix.fill(JointGroupCommand(), "arm", np.array(values))
    assert (message.name, message.cmd.typecode) == ("arm", "f")
    np.testing.assert_array_equal(interbotix.reader(ARM)(message), np.float32(values))


def test_a_single_joint_is_a_number():
    message = interbotix.fill(JointSingleCommand(), "gripper", np.array([1.25]))
    assert message.cmd == 1.25
    np.testing.assert_array_equal(interbotix.reader(HAND)(message), [1.25])


def test_another_groups_command_is_told_apart():
    message = interbotix.fill(JointGroupCommand(), "all", np.zeros(6))
    assert "expected the name 'arm', found 'all'" in interbotix.reader(ARM)(message)


@pytest.mark.skipif(
    importlib.util.find_spec("interbotix_xs_msgs") is not None,
    reason="the package is installed here",
)
@pytest.mark.parametrize("output", [ARM, HAND])
def test_without_the_package_it_says_what_to_build(output):
    says = r"interbotix_xs_msgs.*not installed.*source its workspace"
    with pytest.raises(ValueError, match=says):
        interbotix.message_class(output)


def test_the_drivers_yaml_covers_every_joint_once_in_the_drivers_words():
    robot = robots.load("aloha_driver")
    assert robot.joint_names == robots.load("aloha").joint_names
    sent = [joint for _, joints in robot.outputs for joint in joints]
    assert sorted(sent) == sorted(robot.joint_names)
    assert {output.name for output, _ in robot.outputs} == {"arm", "gripper"}
    words = [list(part) for part in robot.joint_parts.values()]
    arm = ["waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper"]
    assert words == [arm, arm]
