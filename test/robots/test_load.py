# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Robot YAML: what loads, and the text of every refusal."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from phyai_ros import robots
from phyai_ros.robots import RobotError, config_files

UR10E = Path(__file__).parents[2] / "config" / "robots" / "ur10e.yaml"


@pytest.fixture
def write(tmp_path):
    """Write ur10e.yaml with a change; a dotted key set to None is removed."""

    def write(changes):
        data = yaml.safe_load(UR10E.read_text())
        for key, value in changes.items():
            *path, last = key.split(".")
            place = data
            for part in path:
                place = place[part]
            if value is None:
                del place[last]
            else:
                place[last] = value
        file = tmp_path / "mine.yaml"
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        return file

    return write


def test_ur10e_by_name():
    robot = robots.load("ur10e")
    assert robot.joint_names == (
        "shoulder_pan_joint",
        "shoulder_lift_joint",
        "elbow_joint",
        "wrist_1_joint",
        "wrist_2_joint",
        "wrist_3_joint",
        "finger_joint",
    )
    assert robot.control_rate == 20.0
    assert set(robot.cameras) == {"scene", "wrist"}
    assert robot.joint_state_topics == ("/joint_states",)
    assert robot.output.topic == "/forward_position_controller/commands"
    assert robot.discrete_joints == ("finger_joint",)


def test_ur10e_limits_are_those_of_the_simulated_arm():
    kinematics = pytest.importorskip("phyai_ros.sim.kinematics")
    limits = robots.load("ur10e").limits()
    assert limits.names == kinematics.JOINTS
    np.testing.assert_allclose(limits.lower, kinematics.POSITION_LIMITS[:, 0], atol=1e-6)
    np.testing.assert_allclose(limits.upper, kinematics.POSITION_LIMITS[:, 1], atol=1e-6)
    np.testing.assert_allclose(limits.velocity, kinematics.VELOCITY_LIMITS, atol=1e-6)


def test_unknown_robot_lists_what_exists():
    with pytest.raises(RobotError, match=r"robot 'ur5' is unknown: expected one of \[.*'ur10e'"):
        robots.load("ur5")
    assert "ur10e" in robots.names()


def test_a_name_of_a_file_that_is_here_is_answered_with_the_file(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("extends: ur10e\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RobotError, match=r"'mine' is unknown.*do you mean the file 'mine.yaml'\?"):
        robots.load("mine")


def test_a_missing_file_is_named():
    with pytest.raises(RobotError, match=r"'./no/such.yaml' does not exist.*ur10e"):
        robots.load("./no/such.yaml")


def test_own_yaml_by_path(write):
    robot = robots.load(write({"name": "mine", "control_rate": 50}))
    assert robot.name == "mine"
    assert robot.source.endswith("mine.yaml")


def test_from_an_installed_prefix(tmp_path, monkeypatch):
    """A colcon install keeps config in share/phyai_ros/config, away from the Python module."""
    module = tmp_path / "lib" / "python3.11" / "site-packages" / "phyai_ros" / "robots"
    folder = tmp_path / "share" / "phyai_ros" / "config" / "robots"
    module.mkdir(parents=True)
    folder.mkdir(parents=True)
    (folder / "installed.yaml").write_text(UR10E.read_text())
    monkeypatch.setattr(config_files, "__file__", str(module / "config_files.py"))
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    assert robots.load("installed").source == str(folder / "installed.yaml")


def test_from_a_sourced_prefix(tmp_path, monkeypatch):
    folder = tmp_path / "share" / "phyai_ros" / "config" / "robots"
    folder.mkdir(parents=True)
    (folder / "sourced.yaml").write_text(UR10E.read_text())
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path}")
    assert "sourced" in robots.names()
    assert robots.load("sourced").name == "ur10e"


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"control_rate": 0}, ["mine.yaml: control_rate: ", "greater than 0", "found 0"]),
        ({"control_rate": None}, ["mine.yaml: control_rate: missing"]),
        ({"control_rat": 20}, ["control_rat: unknown key", "'control_rate'"]),
        ({"joints.elbow_joint.velocity": -1}, ["joints.elbow_joint.velocity", "found -1"]),
        ({"joints.elbow_joint.velocity": None}, ["joints.elbow_joint.velocity: missing"]),
        ({"joints.elbow_joint.veloc": 1}, ["joints.elbow_joint.veloc: unknown key", "'velocity'"]),
        ({"joints.elbow_joint.position": [3, -3]}, ["elbow_joint.position", "lower < upper"]),
        ({"joints.elbow_joint.position": [0, ".inf"]}, ["elbow_joint.position"]),
        ({"joints.elbow_joint.unit": "deg"}, ["elbow_joint.unit", "'rad' or 'm'", "'deg'"]),
        ({"joints.elbow_joint.acceleration": float("nan")}, ["elbow_joint.acceleration"]),
        (
            {"joints.elbow_joint.position": [-180, 180]},
            ["elbow_joint.position: expected at most 25.1", "is it in degrees?"],
        ),
        (
            {"joints.elbow_joint.velocity": 120},
            ["elbow_joint.velocity: expected at most 24 rad/s", "is it in degrees?), found 120"],
        ),
        (
            {"joints.elbow_joint.velocity": 25},
            ["elbow_joint.velocity: expected at most 24 rad/s", "is it in degrees?), found 25"],
        ),
        (
            {"joints.finger_joint.velocity": 150},
            ["finger_joint.velocity: expected at most 10 m/s (is it in millimetres?), found 150"],
        ),
        (
            {"joints.elbow_joint.offset": -180},
            ["elbow_joint.offset: expected at most 25.1327 rad (is it in degrees?), found -180"],
        ),
        (
            {"joints.finger_joint.gripper": {"state": {"kind": "affine", "offset": 40}}},
            ["gripper.state.affine.offset: expected at most 25.1327 rad or 20 m", "found 40"],
        ),
        (
            {"joints.finger_joint.gripper": {"command": {"kind": "opening", "zero": 80, "one": 0}}},
            ["gripper.command.opening.zero: ", "in degrees or millimetres?), found 80"],
        ),
        (
            {
                "conventions": {
                    "mine": {
                        "finger_joint": {
                            "state": {
                                "kind": "crank",
                                "robot": {"quantity": "angle", "zero": -35.6},
                                "model": {"quantity": "opening", "one": 58.0},
                                "arm_length": 36,
                            }
                        }
                    }
                }
            },
            [
                "crank.robot.zero: expected at most 25.1327 rad (is it in degrees?), found -35.6",
                "crank.model.one: expected at most 20 m (is it in millimetres?), found 58",
                "crank.arm_length: expected at most 1 m (is it in millimetres?), found 36",
            ],
        ),
        ({"joints.finger_joint.position": [0, 40]}, ["finger_joint", "is it in millimetres?"]),
        (
            {"joints.elbow_joint.acceleration": 180},
            [
                "mine.yaml: joints.elbow_joint.acceleration: expected at most 100 rad/s² "
                "(Franka states 20 for its quickest joints; is it in degrees?), found 180"
            ],
        ),
        (
            {"joints.finger_joint.acceleration": 2000},
            ["finger_joint.acceleration: expected at most 100 m/s² (is it in millimetres?)"],
        ),
        ({"joint_max_age": 50}, ["joint_max_age: expected at most 10 s (is it in milliseconds?)"]),
        (
            {"joints.finger_joint.gripper": {"stall_after": 10000}},
            ["stall_after: expected at most 600 s (is it in milliseconds?)"],
        ),
        ({"max_skew": 5}, ["max_skew: expected at most 1 s (is it in milliseconds?)"]),
        ({"joint_max_age": 200}, ["joint_max_age: expected at most 10 s (is it in milliseconds?)"]),
        ({"cameras.wrist.max_age": 200}, ["cameras.wrist.max_age: ", "milliseconds", "found 200"]),
        ({"max_skew": 25}, ["max_skew: expected at most 1 s (is it in milliseconds?), found 25"]),
        (
            {"speed_scaling": {"topic": "/speed", "max_age": 1000}},
            ["speed_scaling.max_age: expected at most 10 s (is it in milliseconds?)"],
        ),
        (
            {"tracking": {"rad": 11.5, "m": 50, "lag": 500, "after": 250}},
            [
                "tracking.rad: expected at most 1.5 rad (is it in degrees?), found 11.5",
                "tracking.m: expected at most 1 m (is it in millimetres?), found 50",
                "tracking.lag: expected at most 10 s (is it in milliseconds?), found 500",
                "tracking.after: expected at most 10 s (is it in milliseconds?), found 250",
            ],
        ),
        (
            {"cameras.scene.mount.position": [1400, -300, 840]},
            ["cameras.scene.mount.position.0: expected at most 20 m (is it in millimetres?)"],
        ),
        (
            {"tools.gripper.chain.links": [{"joint": "elbow_joint", "a": -612.7, "alpha": 90}]},
            [
                "links.0.a: expected at most 20 m (is it in millimetres?), found -612.7",
                "links.0.alpha: expected at most 25.1327 rad (is it in degrees?), found 90",
            ],
        ),
        (
            {"joints.finger_joint.gripper": {"closed": 0.08}},
            [
                "mine.yaml: joints.finger_joint.gripper: closed: expected within the joint's "
                "position limits [0.0, 0.04], found {'closed': 0.08}"
            ],
        ),
        (
            {"joints.elbow_joint.unit": "deg"},
            ["elbow_joint.unit: expected 'rad' or 'm', as the robot's topics", "scale: 57.29578"],
        ),
        ({"joints.elbow_joint.position": 3.1}, ["elbow_joint.position: expected a list, [a, b]"]),
        ({"joint_state_topics": "/a"}, ["joint_state_topics: expected a list", "found '/a'"]),
        ({"tracking": False}, ["tracking: expected keys and values, found False"]),
        ({"name": ""}, ["name: String should have at least 1 character"]),
        (
            {"cameras.scene.encoding": "BGR8"},
            ["scene.encoding: expected one of rgb8, bgr8, rgba8, bgra8, mono8", "found 'BGR8'"],
        ),
        ({"cameras.scene.encoding": "16UC1"}, ["scene.encoding: expected one of rgb8"]),
        (
            {"cameras.scene.topic": "/camera/scene/camera_info"},
            ["scene.topic: expected a topic of Image", "not of camera_info"],
        ),
        ({"cameras.scene.topic": "/scene/compressedDepth"}, ["not of compressedDepth"]),
        (
            {"cameras.scene.size": [1000000, 1000000]},
            ["scene.size: expected [height, width] of at most 33554432 pixels in all"],
        ),
        (
            {"ready": {"ok": {"topic": "/ok", "type": "std_msgs/msg/Bool", "values": ["true"]}}},
            ["ready.ok.values: expected true or false without quotes, as std_msgs/msg/Bool"],
        ),
        (
            {"ready": {"ok": {"topic": "/ok", "type": "std_msgs/msg/Int32", "values": [True]}}},
            ["ready.ok.values: expected whole numbers, as std_msgs/msg/Int32 has them"],
        ),
        ({"joints.elbow_joint.velocity": True}, ["velocity: expected a number, not true or false"]),
        ({"joints.elbow_joint.sign": 2}, ["elbow_joint.sign", "-1 or 1"]),
        ({"joints.elbow_joint.scale": 0}, ["elbow_joint.scale", "greater than 0"]),
        ({"joints.finger_joint.sign": -1}, ["joints.finger_joint", "expected none beside gripper"]),
        ({"cameras.wrist.topic": "/camera/scene/image_raw"}, ["given to two roles"]),
        ({"cameras.wrist.topic": "no topic!"}, ["cameras.wrist.topic", "no topic!"]),
        ({"cameras": {}}, ["cameras: "]),
        ({"output.type": "velocity"}, ["output.type", "forward_command", "found 'velocity'"]),
        ({"output.joints": ["elbow_joint", "knee"]}, ["output.joints", "unknown ['knee']"]),
        ({"joint_state_topics": []}, ["joint_state_topics"]),
        ({"joint_state_topics": ["/a", "/b", "/a"]}, ["joint_state_topics", "once", "['/a']"]),
        ({"actions": "delta"}, ["actions", "absolute", "'delta'"]),
    ],
)
def test_refusals_say_file_key_expected_and_found(write, changes, texts):
    with pytest.raises(RobotError) as caught:
        robots.load(write(changes))
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("joint", "velocity"),
    [
        ("elbow_joint", 2.62),  # Franka
        ("elbow_joint", 6.283185307),  # UR3e's wrists
        ("elbow_joint", 12.0),  # small arms of ABB and FANUC
        ("elbow_joint", 23.6),  # the tool roll of a CRS A255
        ("finger_joint", 5.0),  # a gantry's axis
    ],
)
def test_the_velocities_of_real_arms_are_taken(write, joint, velocity):
    robot = robots.load(write({f"joints.{joint}.velocity": velocity}))
    assert robot.joints[joint].velocity == velocity


@pytest.mark.parametrize("closed", [0.0, 0.04])
def test_a_gripper_may_close_at_either_of_its_limits(write, closed):
    robot = robots.load(write({"joints.finger_joint.gripper": {"closed": closed}}))
    assert robot.joints["finger_joint"].gripper.closed == closed


def test_limits_that_are_all_in_degrees_are_all_told(write):
    degrees = {"position": [-180, 180], "velocity": 180, "acceleration": 900}
    with pytest.raises(RobotError) as caught:
        robots.load(write({f"joints.elbow_joint.{key}": value for key, value in degrees.items()}))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all("is it in degrees?" in line for line in lines)


def test_a_list_of_which_an_entry_was_refused_is_not_said_to_be_short(write):
    with pytest.raises(RobotError) as caught:
        robots.load(write({"joint_state_topics": ["joint states"]}))
    (line,) = str(caught.value).splitlines()
    assert "joint_state_topics.0: expected a topic's name" in line


def test_what_a_robot_says_it_is_ready_with_is_of_the_topics_type(write):
    mode = {"topic": "/mode", "type": "std_msgs/msg/UInt8", "values": [7]}
    word = {"topic": "/word", "type": "std_msgs/msg/String", "values": ["RUNNING"]}
    other = {"topic": "/o", "type": "ur_dashboard_msgs/msg/RobotMode", "values": [7]}
    robot = robots.load(write({"ready": {"mode": mode, "word": word, "other": other}}))
    assert robot.ready["mode"].values == (7,)


@pytest.mark.parametrize("topic", ["/scene/image_raw", "/scene/image_raw/compressed"])
def test_an_encoding_is_one_that_can_be_read_or_a_compressed_images_format(write, topic):
    said = "bgr8" if topic.endswith("raw") else "bgr8; jpeg compressed bgr8"
    robot = robots.load(write({"cameras.scene.topic": topic, "cameras.scene.encoding": said}))
    assert robot.cameras["scene"].encoding == said


def test_all_problems_are_told_at_once(write):
    with pytest.raises(RobotError) as caught:
        robots.load(write({"control_rate": 0, "max_skew": -1, "colour": "red"}))
    assert len(str(caught.value).splitlines()) == 3


def test_the_example_in_the_documentation_loads(tmp_path):
    document = (UR10E.parents[2] / "docs" / "robots.md").read_text()
    file = tmp_path / "mine.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)[0])
    assert robots.load(file).discrete_joints == ("finger",)


def test_a_joint_given_twice_is_refused(tmp_path):
    """YAML keeps the last of two equal keys without a word: a limit would be lost."""
    file = tmp_path / "twice.yaml"
    text = UR10E.read_text()
    line = next(ln for ln in text.splitlines() if "elbow_joint:" in ln)
    file.write_text(text.replace(line, f"{line}\n{line.replace('3.14', '9.99')}"))
    with pytest.raises(RobotError, match=r"twice.yaml: key 'elbow_joint' is given twice at line"):
        robots.load(file)


@pytest.mark.parametrize("guard", ["tracking", "speed_scaling", "workspace"])
def test_a_key_whose_values_are_commented_out_is_refused(tmp_path, guard):
    """It would be null, which switches a guard off: who wants that writes it."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: {UR10E}\n{guard}:\n  # rad: 0.1\n")
    with pytest.raises(RobotError, match=rf"mine.yaml: key '{guard}' has no value.*null.*line 2"):
        robots.load(file)
    file.write_text(f"extends: {UR10E}\n{guard}: null\n")
    assert getattr(robots.load(file), guard) is None


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "a: [1,\n", "\x00"])
def test_files_that_are_no_yaml_mapping(tmp_path, text):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(RobotError, match=re.escape(str(file))):
        robots.load(file)


ARM = [name for name in robots.load("ur10e").joint_names if name != "finger_joint"]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            {"topic": "/commands", "joints": ARM},
            {"topic": "/commands", "joints": ["finger_joint"]},
            "further_outputs.0.topic: '/commands' carries another output's commands",
        ),
        (
            {"topic": "/commands", "joints": ARM},
            {"topic": "commands", "joints": ["finger_joint"]},
            "further_outputs.0.topic: 'commands' carries another output's commands",
        ),
        (
            {"type": "joint_group", "topic": "/xs", "name": "arm", "joints": ARM},
            {"type": "joint_group", "topic": "/xs", "name": "arm", "joints": ["finger_joint"]},
            "further_outputs.0.topic: '/xs' carries another output's commands",
        ),
        (
            {"topic": "/commands", "name": "arm", "joints": ARM},
            {"topic": "/commands", "name": "hand", "joints": ["finger_joint"]},
            "further_outputs.0.topic: '/commands' carries another output's commands",
        ),
        (
            {"topic": "/arm"},
            {"topic": "/all", "joints": [*ARM, "finger_joint"]},
            "output.joints: expected the joints that leave by it",
        ),
        (
            {"type": "joint_group", "topic": "/xs", "name": "arm", "joints": ARM},
            {"type": "joint_group", "topic": "/xs", "name": "hand", "joints": ["finger_joint"]},
            "",
        ),
    ],
)
def test_two_outputs_do_not_talk_at_once_and_none_has_nothing_to_say(write, first, second, text):
    """On one topic a controller would get arm and gripper in turn; a driver that takes several
    groups on one tells them apart by name."""
    file = write({"output": first, "further_outputs": [second]})
    if not text:
        assert len(robots.load(file).outputs) == 2
        return
    with pytest.raises(RobotError) as caught:
        robots.load(file)
    assert text in str(caught.value)


@pytest.mark.parametrize("topic", ["/camera/", "/a//b", "/1abc", "no topic", "/a/1b", ""])
def test_a_topic_that_rcl_would_not_take_is_refused(write, topic):
    with pytest.raises(RobotError, match=r"scene\.topic: expected a topic's name as /camera/"):
        robots.load(write({"cameras.scene.topic": topic}))


def test_a_rule_between_keys_does_not_show_the_whole_file(write):
    with pytest.raises(RobotError) as refusal:
        robots.load(write({"output.joints": ["nope"]}))
    assert "unknown ['nope']" in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_what_is_still_to_be_filled_in_is_one_line_and_the_rest_is_said_too(write):
    joint = "joints.elbow_joint"
    gaps = {f"{joint}.position": ["FILL_IN", "FILL_IN"], f"{joint}.velocity": "FILL_IN"}
    with pytest.raises(RobotError) as refusal:
        robots.load(write({**gaps, "control_rate": "FILL_IN", "max_skew": -1}))
    first, second = str(refusal.value).splitlines()
    names = f"control_rate, {joint}.position.0, {joint}.position.1, {joint}.velocity"
    assert first.endswith(f"mine.yaml: 4 still FILL_IN: {names}")
    assert "max_skew" in second


@pytest.mark.parametrize(
    ("key", "uses"),
    [
        ("tools.gripper.chain.links", {}),
        ("output.joints", {"output.joints": list(robots.load(UR10E).joints)}),
        ("conventions.degrees", {"conventions": {"degrees": {"shoulder_pan_joint": {}}}}),
    ],
)
def test_a_joint_that_is_misspelt_in_joints_is_told_where_it_is_used(write, key, uses):
    """The chain was said to be wrong, which spells it as the arm does."""
    joints = yaml.safe_load(UR10E.read_text())["joints"]
    misspelt = {name.replace("shoulder_pan", "sholder_pan"): of for name, of in joints.items()}
    chainless = {} if key.startswith("tools") else {"tools": {}, "cameras.wrist.mount": None}
    with pytest.raises(RobotError) as caught:
        robots.load(write({"joints": misspelt, **chainless, **uses}))
    said = str(caught.value)
    assert f"{key}: expected" in said
    assert said.endswith("(do you mean 'sholder_pan_joint', or is that misspelt in joints?)"), said


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"cameras.wrist.mount.tool": "griper"}, "'gripper', or is that misspelt in tools?"),
        (
            {"joint_prefixes": {"/joint_state": "left_"}},
            "'/joint_states', or is that misspelt in joint_state_topics?",
        ),
    ],
)
def test_what_is_near_to_a_name_that_is_none_is_said(write, changes, hint):
    with pytest.raises(RobotError) as caught:
        robots.load(write(changes))
    assert str(caught.value).endswith(f"(do you mean {hint})"), str(caught.value)
