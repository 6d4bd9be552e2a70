# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import ctypes.util

import numpy as np
import pytest

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import task, world
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.render import Renderer, RenderingError
from phyai_ros.sim.sampling import sample_state
from phyai_ros.sim.state import State

BLOCKS = {"red": (0.6, 0.1, 0.0), "green": (0.5, -0.2, 0.3), "blue": (0.8, -0.05, -0.4)}


@pytest.fixture(scope="module")
def cell():
    made = world.make()
    yield made
    made.close()


@pytest.mark.parametrize("what", [{"robot": "panda"}, {"task": "fold"}])
def test_unknown_robot_or_task_lists_what_there_is(what):
    with pytest.raises(ValueError, match=r"ur10e|reach"):
        world.make(**what)


def test_same_seed_same_episode(cell):
    first, again, other = cell.reset(4), cell.reset(4), cell.reset(5)
    np.testing.assert_array_equal(first.joints, again.joints)
    assert first.blocks == again.blocks
    assert first.instruction == again.instruction
    assert other.blocks != first.blocks


def test_fixed_instruction_sets_the_target_and_moves_nothing_else():
    free, fixed = world.make(seed=3), world.make(seed=3, instruction="reach the green block")
    assert fixed.target == "green"
    assert fixed.state().blocks == free.state().blocks
    with pytest.raises(task.InstructionError):
        world.make(instruction="make coffee")


def test_set_state_puts_everything_where_it_says(cell):
    joints = np.append(kin.HOME, 0.02)
    cell.set_state(State(joints, BLOCKS, "reach the blue block", "blue"))
    state = cell.state()
    np.testing.assert_allclose(state.joints, joints)
    for colour, place in BLOCKS.items():
        np.testing.assert_allclose(state.blocks[colour], place, atol=1e-12)
    tip, _ = kin.tool(kin.HOME)
    assert cell.distance == pytest.approx(
        np.linalg.norm(tip - task.target_point(np.array([0.8, -0.05])))
    )
    assert cell.time == 0.0
    assert not cell.success()


def test_bad_command_is_refused_whole(cell):
    cell.reset(0)
    before = cell.physics.goal
    with pytest.raises(ValueError, match="elbow_joint"):
        cell.set_command({"wrist_3_joint": 1.0, "elbow_joint": float("nan")})
    with pytest.raises(ValueError, match="finger_joint"):
        cell.set_command({"wrist_3_joint": 1.0, "elbow": 0.0})
    np.testing.assert_array_equal(cell.physics.goal, before)


def test_named_joints_only_are_commanded(cell):
    cell.set_state(State(np.append(kin.HOME, 0.02), BLOCKS, "reach the red block", "red"))
    cell.set_command({"wrist_3_joint": 0.5})
    cell.step(1.0)
    joints = cell.joints()
    assert joints["wrist_3_joint"][0] == pytest.approx(0.5, abs=1e-3)
    assert joints["elbow_joint"][0] == pytest.approx(kin.HOME[2], abs=1e-3)


def test_small_steps_add_up(cell):
    cell.reset(0)
    for _ in range(1000):
        cell.step(0.0007)
    assert cell.time == pytest.approx(0.7, abs=cell.physics.timestep + 1e-9)


@pytest.mark.parametrize("camera", world.CAMERAS)
def test_pictures_show_every_block_in_its_colour(cell, camera):
    """From the ready pose both cameras see the blocks on the table."""
    blocks = {"red": (0.68, 0.10, 0.0), "green": (0.66, -0.06, 0.3), "blue": (0.76, 0.0, 0.2)}
    cell.set_state(State(np.append(kin.HOME, 0.02), blocks, "reach the red block", "red"))
    picture = cell.render(camera).astype(int)
    assert picture.shape == (240, 320, 3)
    for channel in range(3):
        others = np.delete(picture, channel, axis=-1).max(axis=-1)
        assert (picture[..., channel] > others + 50).sum() > 60


def test_pictures_follow_the_state(cell):
    rng = np.random.default_rng(0)
    cell.set_state(sample_state(rng))
    first = cell.render("scene")
    np.testing.assert_array_equal(first, cell.render("scene"))
    cell.set_state(sample_state(rng))
    assert np.abs(first.astype(int) - cell.render("scene")).max() > 50


def test_unknown_camera_lists_the_cameras(cell):
    with pytest.raises(KeyError, match=r"scene.*wrist"):
        cell.render("left")


def test_no_opengl_names_the_package(cell, monkeypatch):
    def missing(name):
        raise ImportError(f"{name}: library not found")

    monkeypatch.setattr("phyai_ros.sim.render.importlib.import_module", missing)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(RenderingError, match=r"libegl1.*libosmesa6.*egl: .*osmesa: "):
        Renderer(cell.physics.model)


@pytest.mark.skipif(
    ctypes.util.find_library("OSMesa") is None,
    reason="OSMesa is not installed: a second renderer, which Mesa has no more since 25.1",
)
def test_falls_back_to_osmesa():
    """Needs a fresh process: PyOpenGL binds one platform."""
    import subprocess
    import sys

    code = (
        "import importlib, sys\n"
        "sys.modules['mujoco.egl'] = None\n"
        "from phyai_ros.sim import render\n"
        "real = importlib.import_module\n"
        "def no_egl(name):\n"
        "    if name == 'mujoco.egl': raise ImportError('no EGL here')\n"
        "    return real(name)\n"
        "render.importlib.import_module = no_egl\n"
        "from phyai_ros.sim import world\n"
        "print(world.make().render('scene').std() > 10)\n"
    )
    environment = {k: v for k, v in __import__("os").environ.items() if k != "MUJOCO_GL"}
    environment.pop("PYOPENGL_PLATFORM", None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.stdout.strip() == "True", done.stderr


def test_other_opengl_choice_is_refused(cell, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(RenderingError, match="egl, osmesa"):
        Renderer(cell.physics.model)


def test_conveyor_moves_the_target_at_its_speed():
    cell = world.make(seed=1, conveyor=Conveyor(0.1))
    start = cell.state()
    cell.step(1.0)
    state = cell.state()
    moved = state.target_block - start.target_block
    np.testing.assert_allclose(moved, start.velocity, atol=1e-3)
    assert abs(state.velocity[1]) == pytest.approx(0.1)
    cell.step(9.0)
    assert cell.state().velocity[1] == 0.0  # at the end of the belt it stands


def test_reversing_conveyor_turns_and_stays_on_the_belt():
    cell = world.make(seed=2, conveyor=Conveyor(0.2, reversing=True))
    signs = set()
    for _ in range(100):
        cell.step(0.1)
        state = cell.state()
        signs.add(np.sign(state.velocity[1]))
        assert task.WORKSPACE[1, 0] - 1e-6 <= state.target_block[1] <= task.WORKSPACE[1, 1] + 1e-6
    assert signs == {-1.0, 1.0}


@pytest.mark.parametrize("speed", [0.0, -0.1, 5.0, float("nan")])
def test_conveyor_speed_is_range_checked(speed):
    with pytest.raises(ValueError, match=r"0\.3"):
        Conveyor(speed)
