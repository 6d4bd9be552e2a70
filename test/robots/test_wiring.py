# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Several outputs, several joint topics and conventions of a robot's YAML: what fits together."""

import pytest

from phyai_ros import robots
from phyai_ros.nodes.interfaces import interfaces
from phyai_ros.robots import wiring
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
        ("output: {type: joint_group}", r"output\.name: missing: .* this group, often arm"),
        (
            "gripper_output: {type: joint_single, topic: /g, joints: [finger_joint]}",
            r"gripper_output\.name: missing: .* this joint, often gripper",
        ),
        (
            "further_outputs:\n"
            "  - {type: joint_single, topic: /g, name: g, joints: [finger_joint, elbow_joint]}",
            "further_outputs.0.joints: expected one joint for joint_single, found finger_joint, el",
        ),
        ("joint_prefixes: {/other: left_}", r"expected topics of \['/joint_states'\].*'/other'"),
        ("joint_prefixes: {/joint_states: left_}", "no topic brings"),
        ("conventions: {degrees: {elbow: {}}}", "conventions.degrees: expected joints of.*'elbow'"),
    ],
)
def test_what_does_not_fit_is_refused_by_key(tmp_path, text, says):
    with pytest.raises(RobotError, match=says):
        load(tmp_path, text)


JOINTS = "sensor_msgs/msg/JointState"
NUMBERS = "std_msgs/msg/Float64MultiArray"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "output: {topic: /joint_states}",
            f"output.topic: expected a topic of its own for {NUMBERS}, found '/joint_states', on "
            f"which joint_state_topics hears {JOINTS}: give the one on which the robot's contr",
        ),
        (
            "output: {topic: joint_states}",
            "found 'joint_states', on which joint_state_topics hears",
        ),
        (
            "output: {type: joint_trajectory, topic: /camera/wrist/image_raw}",
            "found '/camera/wrist/image_raw', on which cameras.wrist.topic hears",
        ),
        (
            "cameras: {wrist: {topic: /joint_states}}",
            "cameras.wrist.topic: expected a topic of its own for sensor_msgs/msg/Image, found",
        ),
        ("cameras: {wrist: {topic: /joint_states}}", "on which joint_state_topics hears"),
        (
            "cameras: {wrist: {topic: /forward_position_controller/commands}}",
            "output.topic: expected a topic of its own",
        ),
        ("output: {topic: /phyai/chunk}", "on which phyai_ros sends phyai_ros/msg/ActionChunk"),
        ("output: {topic: /diagnostics}", "on which phyai_ros sends"),
        ("joint_state_topics: [/instruction]", "joint_state_topics: expected a topic of its own"),
        ("speed_scaling: {topic: /joint_states}", "speed_scaling.topic: expected a topic of its"),
        (
            "ready: {moving: {topic: /joint_states, type: std_msgs/msg/Bool, values: [true]}}",
            "ready.moving.topic: expected a topic of its own for std_msgs/msg/Bool",
        ),
        (
            f"ready: {{sent: {{topic: /forward_position_controller/commands, type: {NUMBERS}, "
            "values: [1]}}",
            "output.topic: expected a topic of its own",
        ),
        (
            "output: {type: joint_group, topic: /xs, name: arm}\n"
            "gripper_output: {type: joint_single, topic: /xs, name: hand, joints: [finger_joint]}",
            "gripper_output.topic: expected a topic of its own for interbotix_xs_msgs/msg/JointSin",
        ),
    ],
)
def test_a_topic_carries_one_thing_one_way(tmp_path, text, says):
    """Commands on the robot's own topic ended in rcl's traceback, or were heard as its state."""
    with pytest.raises(RobotError) as caught:
        load(tmp_path, text)
    assert says in str(caught.value)


def test_two_that_only_listen_may_share_a_topic(tmp_path):
    mode = "{topic: /mode, type: std_msgs/msg/Int32, values: [7]}"
    other = "{topic: mode, type: std_msgs/msg/Int32, values: [7, 8]}"
    assert len(load(tmp_path, f"ready: {{a: {mode}, b: {other}}}").ready) == 2


def test_the_packages_own_topics_are_those_that_its_nodes_have():
    """In no robot's YAML, and on the list or another node's business."""
    found = interfaces(robots.load("ur10e"), ["policy_node", "handoff_node"], use_sim_time=True)
    named = {"/joint_states", "/forward_position_controller/commands"}
    named |= {camera.topic for camera in robots.load("ur10e").cameras.values()}
    for node in found.values():
        topics = (node.publish | node.subscribe) - named
        events = {topic for topic in topics if topic.endswith("/transition_event")}
        assert topics - events <= {use.topic for use in wiring.OWN}


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
