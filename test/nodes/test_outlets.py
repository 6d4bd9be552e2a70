# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What went out to the robot, tick by tick, from every kind of output's messages."""

from types import SimpleNamespace

import numpy as np
import pytest
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from phyai_ros import robots
from phyai_ros.nodes import outlets
from phyai_ros.nodes.joint_trajectory import fill_trajectory
from phyai_ros.nodes.outlets import Outlet


def test_a_forward_command_is_of_the_tick_that_sent_it_and_of_no_other():
    outlet = outlets.forward("/commands", ("a", "b")).outlet()
    assert outlet.tick(0) is None
    outlet.heard(np.array([[1.0, 2.0]]))
    assert outlet.tick(1).tolist() == [1.0, 2.0]
    assert outlet.tick(2) is None, "the command of this tick was lost"


def test_a_trajectory_is_followed_tick_by_tick_to_its_end_and_held():
    outlet = Outlet(("a",), lasting=True)
    outlet.heard(np.array([[1.0], [2.0], [3.0]]))
    assert [outlet.tick(n).item() for n in (10, 11, 13, 14)] == [1.0, 2.0, 3.0, 3.0]
    outlet.heard(np.array([[9.0], [8.0]]))
    assert [outlet.tick(n).item() for n in (15, 16)] == [9.0, 8.0]


def test_columns_of_a_trajectory_are_found_by_name():
    points = np.array([[1.0, 2.0], [3.0, 4.0]])
    message = fill_trajectory(JointTrajectory(), ("b", "a"), points, points, 0.05)
    assert outlets.read_trajectory(("a", "b"), message).tolist() == [[2.0, 1.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (outlets.read_forward, Float64MultiArray(data=[1.0])),
        (outlets.read_trajectory, JointTrajectory(joint_names=["a", "b"])),
        (outlets.read_trajectory, JointTrajectory(joint_names=["a", "a"])),
    ],
)
def test_messages_for_other_joints_are_refused(read, message):
    with pytest.raises(ValueError, match="expected"):
        read(("a", "b"), message)


def test_every_output_of_a_robot_is_followed():
    for robot in (robots.load(name) for name in robots.names()):
        found = outlets.ways(robot)
        assert sorted(j for way in found for j in way.joints) == sorted(robot.joint_names)


def test_interbotix_commands_are_told_apart_by_their_name():
    group = SimpleNamespace(name="arm", cmd=[1.0, 2.0])
    single = SimpleNamespace(name="gripper", cmd=0.5)
    assert outlets.read_named(("a", "b"), "arm", group).tolist() == [[1.0, 2.0]]
    assert outlets.read_named(("g",), "gripper", single).tolist() == [[0.5]]
    with pytest.raises(ValueError, match="expected the name 'arm', found 'gripper'"):
        outlets.read_named(("g",), "arm", single)
