# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import mujoco
import numpy as np
import pytest

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.physics import Physics
from phyai_ros.sim.scene import COLOURS


@pytest.fixture(scope="module")
def physics():
    return Physics()


def run(physics, seconds):
    for _ in range(round(seconds / physics.timestep)):
        physics.step()


def clear_table(physics):
    for i, colour in enumerate(COLOURS):
        physics.set_block(colour, 0.9, -0.3 + 0.3 * i, 0.0)


def test_body_poses_equal_the_published_kinematics(physics):
    rng = np.random.default_rng(1)
    for _ in range(50):
        q = rng.uniform(-np.pi, np.pi, 6)
        physics.set_joints(np.append(q, 0.02))
        physics.forward()
        flange = physics.data.body("flange")
        np.testing.assert_allclose(flange.xpos, kin.forward(q)[:3, 3], atol=1e-9)
        np.testing.assert_allclose(flange.xmat.reshape(3, 3), kin.forward(q)[:3, :3], atol=1e-9)


def test_joint_names_and_limits_are_those_of_ur_description(physics):
    for name, limits in zip(kin.JOINTS, kin.POSITION_LIMITS, strict=True):
        np.testing.assert_allclose(physics.model.joint(name).range, limits)


def test_holds_against_gravity(physics):
    clear_table(physics)
    start = np.append(kin.tool_down(np.array([0.8, 0.2, 0.3])), 0.01)
    physics.set_joints(start)
    physics.forward()
    run(physics, 1.0)
    position, velocity = physics.joints()
    np.testing.assert_allclose(position, start, atol=1e-4)
    np.testing.assert_allclose(velocity, 0.0, atol=1e-3)


def test_tracks_a_20_hz_stream_one_period_behind(physics):
    clear_table(physics)
    start = np.append(kin.HOME, 0.0)
    speed = np.array([0.5, 0.3, -0.3, 0.5, 0.5, -0.8, 0.02])
    physics.set_joints(start)
    physics.forward()
    for k in range(1, 21):
        command = start + 0.05 * k * speed
        physics.command(command)
        run(physics, 0.05)
        if k > 3:
            position, velocity = physics.joints()
            np.testing.assert_allclose(position, command, atol=2e-3)
            np.testing.assert_allclose(velocity, speed, atol=0.05)


def test_never_faster_than_the_velocity_limits(physics):
    clear_table(physics)
    physics.set_joints(np.append(kin.HOME, 0.0))
    physics.forward()
    physics.command(np.append(kin.HOME + np.array([2.0, 0.3, -0.5, 2.0, 1.0, 3.0]), 0.04))
    fastest = np.zeros(7)
    for _ in range(1000):
        physics.step()
        fastest = np.maximum(fastest, np.abs(physics.joints()[1]))
    assert np.all(fastest <= kin.VELOCITY_LIMITS * 1.05)
    np.testing.assert_allclose(physics.joints()[0][0], 2.0, atol=1e-2)


def test_motor_force_stays_within_the_efforts(physics):
    clear_table(physics)
    physics.set_joints(np.append(kin.HOME, 0.0))
    physics.forward()
    physics.command(np.append(kin.HOME + 1.0, 0.04))
    dofs = [physics.model.joint(n).dofadr[0] for n in kin.JOINTS]
    peak = np.zeros(7)
    for _ in range(200):
        physics.step()
        peak = np.maximum(peak, np.abs(physics.data.qfrc_applied[dofs]))
    assert np.all(peak <= kin.EFFORT_LIMITS)
    assert peak[1] > 20.0  # it does work against gravity


def test_command_outside_the_position_limits_is_clipped(physics):
    physics.command(np.full(7, 100.0))
    np.testing.assert_allclose(physics.goal, kin.POSITION_LIMITS[:, 1])


def test_blocks_rest_on_the_table(physics):
    clear_table(physics)
    physics.set_joints(np.append(kin.HOME, 0.0))
    physics.forward()
    run(physics, 1.0)
    for i, colour in enumerate(COLOURS):
        centre, velocity = physics.block(colour)
        np.testing.assert_allclose(centre, [0.9, -0.3 + 0.3 * i, 0.03], atol=1e-3)
        np.testing.assert_allclose(velocity, 0.0, atol=1e-3)


def test_finger_pushes_a_block():
    """The gripper and the blocks are solid to each other."""
    physics = Physics()
    clear_table(physics)
    physics.set_block("red", 0.6, 0.0, 0.0)
    physics.set_joints(np.append(kin.tool_down(np.array([0.6, -0.15, 0.03])), 0.0))
    physics.forward()
    for y in np.linspace(-0.15, 0.0, 30):
        physics.command(np.append(kin.tool_down(np.array([0.6, y, 0.03])), 0.0))
        run(physics, 0.05)
    assert physics.block("red")[0][1] > 0.02
    assert not np.any(np.isnan(physics.data.qpos))
    assert physics.data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number == 0
