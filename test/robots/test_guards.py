# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Workspace and stall detector as a robot's YAML asks for them."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from phyai_ros import robots
from phyai_ros.robots import RobotError, guards
from phyai_ros.robots.kinematics import Chain, Forward

DH = {
    "shoulder_pan_joint": (0.0, 0.1807, np.pi / 2),
    "shoulder_lift_joint": (-0.6127, 0.0, 0.0),
    "elbow_joint": (-0.57155, 0.0, 0.0),
    "wrist_1_joint": (0.0, 0.17415, np.pi / 2),
    "wrist_2_joint": (0.0, 0.11985, -np.pi / 2),
    "wrist_3_joint": (0.0, 0.11655, 0.0),
}
CHAIN = {
    "links": [
        # base_link of ROS looks the other way than the base of the DH table: half a turn.
        {
            "joint": j,
            "a": a,
            "d": d,
            "alpha": float(alpha),
            "offset": float(np.pi) if j == "shoulder_pan_joint" else 0.0,
        }
        for j, (a, d, alpha) in DH.items()
    ],
    "tool": [0.0, 0.0, 0.15],
}


@pytest.fixture
def with_box(tmp_path):
    def build(**changes):
        data = yaml.safe_load(Path(robots.load("ur10e").source).read_text())
        data["workspace"] = {
            "chain": CHAIN,
            "lower": [-1.0, -1.0, 0.0],
            "upper": [1.0, 1.0, 1.5],
            **changes,
        }
        file = tmp_path / "boxed.yaml"
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        return robots.load(file)

    return build


def test_forward_kinematics_are_those_of_the_simulated_arm():
    kinematics = pytest.importorskip("phyai_ros.sim.kinematics")
    tool = Forward(Chain.model_validate(CHAIN), robots.load("ur10e").joint_names)
    rng = np.random.default_rng(3)
    for q in rng.uniform(-3, 3, (50, 7)):
        pose = kinematics.forward(q[:6])
        expected = pose[:3, 3] + kinematics.TOOL_LENGTH * pose[:3, 2]
        np.testing.assert_allclose(tool(q), expected, atol=1e-12)


def test_the_box_reaches_the_guard(with_box):
    robot = with_box()
    box = guards.workspace(robot)
    home = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0.0, 0.0])
    assert box.sides(home) == []
    below = home.copy()
    below[1] = 0.6
    assert "z" in box.sides(below)
    assert guards.workspace(robots.load("ur10e")) is None


def test_bad_boxes_are_named(with_box):
    with pytest.raises(RobotError, match="workspace: lower, upper: expected lower < upper"):
        with_box(upper=[-2.0, 1.0, 1.0])
    links = [{**CHAIN["links"][0], "joint": "knee"}]
    with pytest.raises(RobotError, match=r"workspace.chain.links: .*found 'knee'"):
        with_box(chain={"links": links})


def test_a_box_in_millimetres_is_told_and_an_open_side_is_none(with_box):
    with pytest.raises(RobotError) as caught:
        with_box(lower=[-900, -900, 20])
    text = "workspace.lower.0: expected at most 20 m (is it in millimetres?), found -900"
    assert text in str(caught.value)
    assert with_box(upper=[1.0, float("inf"), 1.5]).workspace.upper[1] == np.inf


def test_ur10e_gripper_is_watched():
    detector = guards.stall_detector(robots.load("ur10e"), 0.05)
    closed, opened = np.zeros(7), np.full(7, 0.04)
    assert [detector.update(True, closed) for _ in range(200)][-1] == "finger_joint"
    assert detector.update(True, opened) == ""


def test_arm_joints_are_watched_and_grippers_are_not():
    watch = guards.tracking_watch(robots.load("ur10e"), 0.05)
    home = np.zeros(7)
    for _ in range(20):
        watch.sent(home)
        assert watch.look(np.array([0.19] * 6 + [0.04])) == ""
    off = np.array([0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0])
    said = [watch.look(off) for _ in range(5)]
    assert said[:4] == [""] * 4
    assert "elbow_joint is 0.25 rad" in said[4]


def test_a_robot_may_go_without_the_watch(tmp_path):
    file = tmp_path / "bare.yaml"
    file.write_text("extends: ur10e\ntracking: null\n")
    assert guards.tracking_watch(robots.load(file), 0.05) is None


def test_each_gripper_has_its_own_patience_and_its_own_travel(tmp_path):
    """Two arms: one holds what it carries for long, the other has a hundred times the travel."""
    limits = "velocity: 1.0, acceleration: 4.0"
    file = tmp_path / "two.yaml"
    file.write_text(
        "name: two\ncontrol_rate: 20\njoint_state_topics: [/joint_states]\n"
        "joints:\n"
        f"  quick: {{unit: m, position: [0.0, 0.02], {limits}, gripper: {{stall_after: 1.0}}}}\n"
        f"  slow: {{unit: rad, position: [0.0, 2.0], {limits}, gripper: {{stall_after: 4.0}}}}\n"
        "cameras: {scene: {topic: /scene}}\noutput: {topic: /commands}\n"
    )
    stall = guards.stall_detector(robots.load(file), 0.05)
    said = [stall.update(True, np.array([0.0, 0.01 * (k % 2)])) for k in range(100)]
    assert said.index("quick") == 19
    assert said.index("slow") == 79  # it trembles by less than a fiftieth of its travel


def test_a_chain_turns_no_joint_that_slides(with_box):
    """Metres taken for radians: the box would be guarded for a tool that is elsewhere."""
    links = [*CHAIN["links"], {"joint": "finger_joint"}]
    with pytest.raises(RobotError) as caught:
        with_box(chain={**CHAIN, "links": links})
    assert "workspace.chain.links: expected joints that turn (unit: rad)" in str(caught.value)
    assert "'finger_joint'" in str(caught.value)
