# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros import robots
from phyai_ros.robots import RobotError


def test_a_file_lies_over_the_one_it_extends(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "extends: ur10e\njoints: {elbow_joint: {velocity: 0.5}}\njoint_state_topics: [/a, /b]\n"
    )
    base, robot = robots.load("ur10e"), robots.load(mine)
    assert robot.joints["elbow_joint"].velocity == 0.5
    assert robot.joints["elbow_joint"].position == base.joints["elbow_joint"].position
    assert robot.joint_names == base.joint_names
    assert robot.joint_state_topics == ("/a", "/b")
    assert robot.source == str(mine)


def test_a_path_is_meant_from_the_file_that_says_it(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "base.yaml").write_text("extends: ur10e\ndescription: mine\n")
    (tmp_path / "sub" / "arm.yaml").write_text("extends: base.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert robots.load("sub/arm.yaml").description == "mine"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("extends: ur99\n", "extends: robot 'ur99' is unknown"),
        ("extends: [ur10e]\n", "expected a name or a YAML file"),
        ("extends: arm.yaml\n", "does not lead back"),
        ("extends: ur10e\nready: {a: {topic: /a, type: os.system, values: [1]}}\n", "ready.a.type"),
        ("extends: ur10e\ngripper_output: {topic: /g}\n", "gripper_output.joints"),
        (
            "extends: ur10e\ngripper_output: {topic: /g, joints: [claw]}\n",
            "unknown ['claw']",
        ),
        ("extends: ur10e\nspeed_scaling: {topic: /a, full: 0}\n", "speed_scaling.full"),
    ],
)
def test_a_wrong_one_is_refused_by_name(tmp_path, text, says):
    (tmp_path / "arm.yaml").write_text(text)
    with pytest.raises(RobotError, match=r"arm\.yaml.*") as refusal:
        robots.load(tmp_path / "arm.yaml")
    assert says in str(refusal.value)
