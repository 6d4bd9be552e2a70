# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The ALOHA cell: kinematics against gym-aloha's models, the task, the expert, the servo."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros import robots
from phyai_ros.robots.geometry import Geometry
from phyai_ros.robots.mapping import Crank, Side
from phyai_ros.sim import cells
from phyai_ros.sim.aloha import expert, model, sampling, task
from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha.task import State
from phyai_ros.sim.aloha.world import World
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.episodes import Episodes

CUBES = st.tuples(st.floats(0.0, 0.2), st.floats(0.4, 0.6))


@pytest.fixture(scope="module")
def cell():
    made = World(0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def episodes(cell):
    """What the expert makes of ten episodes: (success, seconds, farthest left joint in rad)."""
    found = []
    for seed in range(10):
        start = cell.reset(seed).joints
        drive(cell)
        left = np.abs(cell.state().joints - start)[:6].max()
        found.append((cell.success(), cell.time, left, cell.distance))
    return found


def drive(cell, seconds=10.0):
    tick = 0
    while cell.time < seconds and not cell.success():
        if tick % 20 == 0:
            chunk = expert.chunks(cell.state().joints, cell.state().cube, 20, 0.02)
        cell.set_command(dict(zip(cell.joint_names, chunk[tick % 20].tolist(), strict=True)))
        cell.step(0.02)
        tick += 1


@pytest.mark.parametrize("side", kin.SIDES)
@given(cube=CUBES, pitch=st.floats(0.9, 1.2))
def test_reach_is_undone_by_the_grasp_point(side, cube, pitch):
    mirrored = cube[0] if side == "right" else -cube[0]
    point = task.target_point(np.array([mirrored, cube[1]]))
    joints = kin.reach(point, side, pitch)
    np.testing.assert_allclose(kin.grasp_point(joints, side), point, atol=1e-12)
    assert joints[[1, 2, 4]].sum() == pytest.approx(pitch)


@pytest.mark.parametrize("side", kin.SIDES)
def test_kinematics_are_those_of_the_models(cell, side):
    rng = np.random.default_rng(0)
    part = kin.LEFT if side == "left" else kin.RIGHT
    for _ in range(20):
        joints = cell.reset(0).joints
        arm = rng.uniform(*kin.POSITION_LIMITS[:6].T) * [1, 1, 1, 0, 1, 0]
        joints[part][:6] = arm
        cell.set_state(State(joints, np.array([0.1, 0.5])))
        # The MJCF's half turn of the right arm is 3.1416.
        np.testing.assert_allclose(cell.physics.grasp(side), kin.grasp_point(arm, side), atol=1e-5)


def test_limits_are_those_of_the_models_and_of_the_robots_yaml(cell):
    limits = robots.load("aloha").limits()
    assert limits.names == kin.JOINTS
    np.testing.assert_allclose(limits.lower, kin.POSITION_LIMITS[:, 0], atol=1e-8)
    np.testing.assert_allclose(limits.upper, kin.POSITION_LIMITS[:, 1], atol=1e-8)
    for side in kin.SIDES:
        for i, name in enumerate(kin.ARM_JOINTS):
            low, high = cell.physics.model.joint(f"vx300s_{side}/{name}").range
            np.testing.assert_allclose([low, high], kin.POSITION_LIMITS[i], atol=2e-5)


def test_the_robots_yaml_knows_where_grasp_points_and_cameras_are(cell):
    rng, geometry = np.random.default_rng(4), Geometry(robots.load("aloha"))
    for _ in range(10):
        joints = rng.uniform(*kin.POSITION_LIMITS.T)
        cell.set_state(State(joints, np.array([0.1, 0.5])))
        for side in kin.SIDES:
            point = geometry.tool_points(side, joints)
            np.testing.assert_allclose(point, cell.physics.grasp(side), atol=1e-5)
    for role in geometry.roles:
        camera, data = cell.physics.model.camera(role).id, cell.physics.data
        pose = geometry.camera(role, joints)
        np.testing.assert_allclose(pose[:3, 3], data.cam_xpos[camera], atol=1e-9)
        optical = data.cam_xmat[camera].reshape(3, 3) * [1, -1, -1]
        np.testing.assert_allclose(pose[:3, :3], optical, atol=1e-7)
    assert geometry.roles == ("cam_high", "cam_low")


@given(st.floats(kin.CLOSED, kin.OPEN))
def test_the_crank_is_the_robots_mapping(angle):
    mapping = Crank(robot=Side(quantity="angle"), model=Side(quantity="opening"))
    opening = kin.opening(np.array(angle))
    assert opening == pytest.approx(float(mapping.to_model(np.array(angle))), abs=1e-15)
    assert kin.angle(opening) == pytest.approx(angle, abs=1e-7)
    step = 1e-6
    slope = (kin.opening(np.array(angle + step)) - kin.opening(np.array(angle - step))) / (2 * step)
    assert kin.opening_rate(np.array(angle)) == pytest.approx(float(slope), rel=1e-4, abs=1e-9)


def test_expert_brings_the_right_gripper_to_the_cube_and_leaves_the_left_arm(episodes):
    assert all(success for success, *_ in episodes)
    assert max(seconds for _, seconds, *_ in episodes) < 4.0
    assert max(left for _, _, left, _ in episodes) < 0.05
    assert max(distance for *_, distance in episodes) < task.TOLERANCE


def test_grippers_go_where_they_are_told_in_rad_of_the_motor(cell):
    cell.reset(1)
    wanted = float(kin.angle(np.array(0.045)))
    cell.set_command({"right_gripper": wanted})
    cell.step(1.0)
    position, velocity = cell.joints()["right_gripper"]
    assert position == pytest.approx(wanted, abs=0.02)
    assert abs(velocity) < 0.02
    fingers = [
        cell.physics.model.joint(f"vx300s_right/{s}_finger").qposadr[0] for s in ["left", "right"]
    ]
    left, right = cell.physics.data.qpos[fingers]
    assert left == pytest.approx(0.045, abs=5e-4)
    assert right == pytest.approx(-left, abs=5e-4)


def test_left_arm_away_from_home_is_no_success(cell):
    cube = np.array([0.1, 0.5])
    joints = expert.goal(cube)
    joints[0] += 2 * task.LEFT_TOLERANCE
    cell.set_state(State(joints, cube))
    cell.step(1.0)
    assert cell.distance < task.TOLERANCE
    assert not cell.success()
    assert cell.over() == "cube"
    joints[0] -= 2 * task.LEFT_TOLERANCE
    cell.set_state(State(joints, cube))
    cell.step(task.HOLD - 0.05)
    assert not cell.success()
    cell.step(0.1)
    assert cell.success()


def test_a_seed_decides_everything_and_cubes_lie_where_gym_aloha_puts_them(cell):
    one = cell.reset(5)
    first = cell.physics.positions
    cell.step(0.3)
    again = cell.reset(5)
    np.testing.assert_array_equal(cell.physics.positions, first)
    np.testing.assert_array_equal(again.joints, one.joints)
    cubes = np.array([cell.reset(seed).cube for seed in range(100)])
    low, high = task.CUBE_RANGE.T
    assert (cubes >= low).all()
    assert (cubes <= high).all()
    np.testing.assert_allclose(cubes.mean(0), [0.1, 0.5], atol=0.02)


def test_commands_are_clipped_and_velocity_stays_within_the_limits(cell):
    cell.reset(2)
    cell.set_command({"right_waist": 100.0, "left_elbow": -100.0})
    fastest = np.zeros(14)
    for _ in range(300):
        cell.step(0.005)
        positions, velocities = cell.physics.joints()
        fastest = np.maximum(fastest, np.abs(velocities))
    assert (fastest[list(kin.ARMS)] < 1.1 * np.pi).all()
    assert (positions >= kin.POSITION_LIMITS[:, 0] - 0.05).all()
    assert (positions <= kin.POSITION_LIMITS[:, 1] + 0.05).all()


@pytest.mark.parametrize("camera", task.CAMERAS)
def test_cameras_see_the_cube_or_their_gripper(cell, camera):
    cell.reset(3)
    picture = cell.render(camera)
    assert picture.shape == (240, 320, 3)
    assert picture.std() > 10
    red = (picture[..., 0] > 150) & (picture[..., 1] < 80)
    if camera in ("cam_high", "cam_low"):
        assert 20 < red.sum() < 2000


def test_two_cells_of_one_thread_draw_their_own_pictures(cell):
    cell.reset(3)
    alone = cell.render("cam_high")
    other = World(4, width=160, height=120)
    theirs = other.render("cam_high")
    np.testing.assert_array_equal(cell.render("cam_high"), alone)
    np.testing.assert_array_equal(other.render("cam_high"), theirs)
    other.close()
    np.testing.assert_array_equal(cell.render("cam_high"), alone)


def test_samples_are_states_that_the_expert_has_an_answer_to():
    rng = np.random.default_rng(3)
    for _ in range(200):
        state = sampling.sample_state(rng)
        chunk = expert.chunks(state.joints, state.cube, 50, 0.02)
        assert np.isfinite(chunk).all()
        assert (chunk >= kin.POSITION_LIMITS[:, 0] - 1e-9).all()
        assert (chunk <= kin.POSITION_LIMITS[:, 1] + 1e-9).all()


@given(st.integers(0, 1000), st.floats(0.01, 0.5))
def test_two_half_steps_of_the_expert_are_one_whole_step(seed, dt):
    error = np.random.default_rng(seed).normal(0, 0.4, 7)
    whole = expert.shrink(error, dt)
    np.testing.assert_allclose(
        expert.shrink(expert.shrink(error, dt / 2), dt / 2), whole, atol=1e-12
    )


def test_episodes_refuse_a_first_command_far_from_an_arm_but_not_from_a_gripper(cell):
    run = Episodes(cell, first_seed=7)
    goal = cell.physics.goal
    away = goal.copy()
    away[9] += 1.0
    assert "right_elbow" in run.command(away)
    goal[13] = kin.OPEN
    assert run.command(goal) is None


def test_what_is_not_simulated_is_refused_by_name():
    with pytest.raises(ValueError, match="unknown robot 'panda'; the simulator has ur10e, aloha"):
        cells.make("panda")
    with pytest.raises(ValueError, match="unknown task 'follow'; the simulated aloha has reach"):
        cells.make("aloha", "follow")
    with pytest.raises(ValueError, match="no conveyor"):
        cells.make("aloha", conveyor=Conveyor(0.1))
    assert cells.make("ur10e").joint_names[0] == "shoulder_pan_joint"


def test_without_gym_aloha_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(model.AssetsMissingError, match=r"pip install --no-deps gym-aloha==0\.1\.5"):
        model.scene_file()


def test_the_package_itself_is_not_imported():
    code = (
        "import sys; from phyai_ros.sim.aloha.world import World; World(0); "
        "sys.exit('gym_aloha' in sys.modules or 'gymnasium' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
