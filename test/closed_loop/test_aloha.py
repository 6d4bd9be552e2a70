# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The embedded ACT brings ALOHA's right gripper to the cube, by sight, in virtual time."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phyai_ros import robots
from phyai_ros.engine.policy import Policy, load_policy
from phyai_ros.engine.types import Observation
from phyai_ros.nodes import model_file
from phyai_ros.robots.binding import Binding
from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha import task
from phyai_ros.sim.aloha.world import World
from tools.train.aloha.data import spoken
from tools.train.aloha.evaluate import commanded, episode
from tools.train.trials import HELD_OUT

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "phyai_ros" / "checkpoints" / "act_aloha_small"
LIMIT = 8_000_000
"""Bytes that an embedded checkpoint may take in the repository."""


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.set_num_threads(1)
    return load_policy(CHECKPOINT)


@pytest.fixture(scope="module")
def world():
    made = World(0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def binding(policy: Policy) -> Binding:
    model, source = model_file.load("act")
    robot = robots.load("aloha")
    return Binding(robot, policy.spec, model_file.robot_part(model, robot.name, source))


def observe(policy: Policy, world: World, **other: np.ndarray) -> Observation:
    images = {
        key: other.get(key.rsplit(".", 1)[-1], world.render(key.rsplit(".", 1)[-1]))
        for key in policy.spec.cameras
    }
    return Observation(images, spoken(world.state().joints), world.instruction, world.time)


def test_size_and_layout(policy: Policy) -> None:
    files = list(CHECKPOINT.iterdir())
    assert sum(f.stat().st_size for f in files) <= LIMIT
    assert {f.suffix for f in files} <= {".json", ".safetensors"}
    assert policy.spec.family == "act"
    assert (policy.spec.state_dim, policy.spec.action_dim, policy.spec.horizon) == (14, 14, 50)


@pytest.mark.parametrize("seed", range(HELD_OUT, HELD_OUT + 5))
def test_the_right_gripper_reaches_the_cube(policy: Policy, world: World, seed: int) -> None:
    result = episode(policy, world, seed, delay=5, execution=20)
    assert result["success"], result
    assert result["left"] < task.LEFT_TOLERANCE


def test_the_binding_is_what_the_demonstrations_said(
    policy: Policy, world: World, binding: Binding
) -> None:
    """State and commands by the robot's and the model's YAML are those that training used."""
    world.reset(3)
    measured = {name: position for name, (position, _) in world.joints().items()}
    np.testing.assert_allclose(
        binding.state(measured), spoken(world.state().joints), rtol=0, atol=1e-9
    )
    rows = policy.infer(observe(policy, world)).actions
    positions = binding.positions(rows, measured)
    expected = [list(commanded(row).values()) for row in rows]
    np.testing.assert_allclose(positions, expected, rtol=0, atol=1e-9)
    assert binding.step == 0.02


def test_it_goes_by_what_it_sees(policy: Policy, world: World) -> None:
    """Another cube, another way; without pictures, none that is right."""
    ends = []
    for cube in ((0.02, 0.42), (0.18, 0.58)):
        start = world.reset(1).joints
        world.set_state(task.State(start, np.array(cube)))
        row = policy.infer(observe(policy, world)).actions[-1]
        ends.append(row[7:13])
    assert np.abs(ends[0] - ends[1]).max() > 0.1
    dark = np.zeros((240, 320, 3), np.uint8)
    blind = dict.fromkeys(("cam_high", "cam_low", "cam_right_wrist"), dark)
    row = policy.infer(observe(policy, world, **blind)).actions[-1]
    assert np.abs(row[7:13] - ends[1]).max() > 0.05


def test_pictures_of_another_size_are_scaled(policy: Policy, world: World) -> None:
    world.reset(4)
    large = World(4, width=640, height=480)
    try:
        wanted = policy.infer(observe(policy, world)).actions
        found = policy.infer(observe(policy, large)).actions
    finally:
        large.close()
    np.testing.assert_allclose(found[:, 7:13], wanted[:, 7:13], atol=0.05)


def test_held_at_the_cube_it_stays(policy: Policy, world: World) -> None:
    """Where the task is done the policy's plan goes nowhere."""
    from phyai_ros.sim.aloha import expert

    cube = np.array([0.12, 0.47])
    world.set_state(task.State(expert.goal(cube), cube))
    rows = policy.infer(observe(policy, world)).actions
    goals = np.array([list(commanded(row).values()) for row in rows])
    assert np.abs(goals - world.state().joints)[:, list(kin.ARMS)].max() < 0.06
