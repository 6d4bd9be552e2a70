# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Tools and cameras of config/robots against the simulator's own geometry."""

import mujoco
import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.geometry import Geometry
from phyai_ros.robots.placement import Pose
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.physics import Physics

OPTICAL = np.diag([1.0, -1.0, -1.0])
"""MuJoCo's cameras look along -z with y up; an optical frame looks along z with y down."""


@pytest.fixture(scope="module")
def ur10e():
    return robots.load("ur10e")


def postures(count):
    generator = np.random.default_rng(3)
    arm = kin.HOME + generator.uniform(-1.2, 1.2, (count, 6))
    return np.column_stack([arm, generator.uniform(0.0, 0.04, count)])


def test_the_tool_of_the_yaml_is_the_simulators(ur10e):
    positions = postures(40)
    points = Geometry(ur10e).tool_points("gripper", positions)
    np.testing.assert_allclose(points, kin.tool(positions[:, :6])[0], atol=1e-8)


@pytest.mark.parametrize("role", ["scene", "wrist"])
def test_the_cameras_of_the_yaml_are_the_simulators(ur10e, role):
    physics, geometry = Physics(), Geometry(ur10e)
    for joints in postures(8):
        physics.set_joints(joints)
        mujoco.mj_forward(physics.model, physics.data)
        camera = physics.data.cam(role)
        made = geometry.camera(role, joints)
        np.testing.assert_allclose(made[:3, 3], camera.xpos, atol=1e-7)
        np.testing.assert_allclose(made[:3, :3], camera.xmat.reshape(3, 3) @ OPTICAL, atol=1e-7)


def test_one_point_of_the_box_and_many_frames_agree(ur10e):
    """``Forward`` has two ways to the same point: the guard's, one posture at a time, and this."""
    positions = postures(20)
    forward = Geometry(ur10e)._forward["gripper"]
    frames = forward.frames(positions) @ np.append(forward.tool, 1.0)
    for one, many in zip(positions, frames, strict=True):
        np.testing.assert_allclose(forward(one), many[:3], atol=1e-12)


def test_a_quaternion_may_have_any_length():
    long = Pose(quaternion=(0.0, 0.0, 3.0, 3.0)).matrix()
    np.testing.assert_allclose(long[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)


LAID_OVER = {
    "cameras: {wrist: {mount: {tool: claw}}}": r"cameras.wrist.mount.tool.*gripper.*'claw'",
    "cameras: {wrist: {mount: {quaternion: [0, 0, 0, 0]}}}": "not all zero",
    "tools: {gripper: {chain: {links: [{joint: thumb}]}}}": r"tools.gripper.chain.links.*'thumb'",
}


@pytest.mark.parametrize("text", LAID_OVER, ids=["tool", "quaternion", "joint"])
def test_what_does_not_fit_is_refused_by_name(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: ur10e\n{text}\n")
    with pytest.raises(RobotError, match=LAID_OVER[text]):
        robots.load(path)


def test_a_robot_without_tools_says_which_key_is_missing(ur10e):
    bare = ur10e.model_copy(update={"tools": {}})
    with pytest.raises(RobotError, match="tools: missing"):
        Geometry(bare)
