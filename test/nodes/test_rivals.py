# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros.nodes.rivals import joints_twice

ARM, GRIPPER = ("shoulder", "elbow"), ("finger",)


@pytest.mark.parametrize(
    ("count", "sets"),
    [(1, [ARM]), (2, [ARM, GRIPPER]), (1, [ARM, ("elbow",)]), (2, [])],
    ids=["one", "arm and gripper", "one that sends parts", "nothing yet"],
)
def test_each_joint_from_one_publisher(count, sets):
    assert joints_twice("/joint_states", count, sets) == ""


def test_joints_in_two_sets_are_named():
    said = joints_twice("/joint_states", 2, [ARM, ("elbow", "finger")])
    assert said == "2 publishers on /joint_states, and several send elbow"


def test_fewer_sets_than_publishers():
    said = joints_twice("/joint_states", 3, [ARM, GRIPPER])
    assert said.startswith("3 publishers on /joint_states, but only 2 set(s) of joints")
