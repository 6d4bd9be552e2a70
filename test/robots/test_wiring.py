# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Several outputs, several joint topics and conventions of a robot's YAML: what fits together."""

import pytest

from phyai_ros import robots
from phyai_ros.robots.errors import RobotError

ARM = "shoulder_pan_joint, shoulder_lift_joint, elbow_joint"
WRIST = "wrist_1_joint, wrist_2_joint, wrist_3_joint"


def load(tmp_path, text, base="ur10e"):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {base}\n{text}\n")
    return robots.load(path)


def test_outputs_share_the_joints_between_them(tmp_path):
    robot = load(
        tmp_path,
        "gripper_output: {topic: /g, joints: [finger_joint]}\n"
        f"further_outputs: [{{topic: /w, joints: [{WRIST}]}}]",
    )
    assert [(output.topic, len(joints)) for output, joints in robot.outputs] == [
        ("/forward_position_controller/commands", 3),
        ("/g", 1),
        ("/w", 3),
    ]
    assert robot.output_joints == tuple(ARM.split(", "))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("further_outputs: [{topic: /w}]", r"further_outputs\.0\.joints: expected the joints"),
        ("further_outputs: [{topic: /w, joints: [elbow]}]", r"unknown \['elbow'\]"),
        (
            "output: {joints: [elbow_joint]}\n"
            "further_outputs: [{topic: /w, joints: [elbow_joint]}]",
            "expected each of .* once",
        ),
        ("joint_prefixes: {/other: left_}", r"expected topics of \['/joint_states'\].*'/other'"),
        ("joint_prefixes: {/joint_states: left_}", "no topic brings"),
        ("conventions: {degrees: {elbow: {}}}", "conventions.degrees: expected joints of.*'elbow'"),
    ],
)
def test_what_does_not_fit_is_refused_by_key(tmp_path, text, says):
    with pytest.raises(RobotError, match=says):
        load(tmp_path, text)


def test_a_robot_says_every_joint_once_on_the_topic_of_its_prefix():
    robot = robots.load("aloha_driver")
    parts = robot.joint_parts
    assert list(parts) == list(robot.joint_state_topics)
    assert parts["/follower_right/joint_states"]["waist"] == "right_waist"
    assert sorted(j for part in parts.values() for j in part.values()) == sorted(robot.joints)
    plain = robots.load("ur10e")
    assert plain.joint_parts == {"/joint_states": {name: name for name in plain.joint_names}}


def test_joints_without_a_prefix_come_on_the_topic_without_one(tmp_path):
    robot = load(
        tmp_path,
        "joint_state_topics: [/arm, /hand]\njoint_prefixes: {/hand: finger_}",
    )
    assert robot.joint_parts["/hand"] == {"joint": "finger_joint"}
    assert len(robot.joint_parts["/arm"]) == 6
