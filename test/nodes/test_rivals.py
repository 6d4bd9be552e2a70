# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest

from phyai_ros.nodes.rivals import Rivals, joints_twice

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


def test_two_outputs_of_this_node_on_one_topic_are_no_rivals():
    listed = [
        SimpleNamespace(endpoint_gid=gid, node_namespace="/", node_name="handoff_node")
        for gid in (b"gripper", b"waist")
    ]
    node = SimpleNamespace(
        resolve_topic_name=lambda topic: topic,
        get_publishers_info_by_topic=lambda topic: listed if topic == "/single" else [],
        get_namespace=lambda: "/",
        get_name=lambda: "handoff_node",
    )
    log = SimpleNamespace(set=lambda *_, **__: None)
    rivals = Rivals(node, log, ["/single", "/single"], 1, "/phyai/chunk", [])
    rivals.look({})
    assert rivals.status().message == "ok"
    listed.append(SimpleNamespace(endpoint_gid=b"x", node_namespace="/", node_name="moveit"))
    rivals.look({})
    assert "3 publishers on /single, expected 2 of this node" in rivals.status().message
