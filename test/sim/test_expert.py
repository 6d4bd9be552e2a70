# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from phyai_ros.sim import expert, task, world
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.sampling import sample_state
from phyai_ros.sim.scene import COLOURS


def run_episode(cell, seed, rows=5):
    """Closed loop: every ``rows`` ticks a new chunk from the measured state."""
    policy = expert.Expert(cell)
    cell.reset(seed)
    while not cell.success() and cell.time < task.TIME_LIMIT:
        for row in policy.chunk()[:rows]:
            cell.set_command(dict(zip(cell.joint_names, row, strict=True)))
            cell.step(0.05)
    return cell.success()


def test_succeeds_on_fifty_seeds():
    cell = world.make()
    failed = [seed for seed in range(50) if not run_episode(cell, seed)]
    assert not failed


@pytest.mark.parametrize("reversing", [False, True])
def test_follows_a_moving_block(reversing):
    cell = world.make(conveyor=Conveyor(0.08, reversing=reversing))
    failed = [seed for seed in range(10) if not run_episode(cell, seed)]
    assert not failed


def test_whole_chunk_in_the_open_works_too():
    cell = world.make()
    assert all(run_episode(cell, seed, rows=16) for seed in range(5))


def test_batch_equals_single():
    rng = np.random.default_rng(0)
    states = [sample_state(rng) for _ in range(32)]
    joints = np.stack([s.joints for s in states])
    block = np.stack([s.target_block for s in states])
    batch = expert.chunks(joints, block)
    assert batch.shape == (32, 16, 7)
    for state, chunk in zip(states, batch, strict=True):
        np.testing.assert_array_equal(expert.chunks(state.joints, state.target_block), chunk)


def test_chunks_agree_with_themselves_one_step_later():
    """The law is memoryless: from row k's state it gives the rest of the same chunk."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        state = sample_state(rng)
        chunk = expert.chunks(state.joints, state.target_block, [0.0, 0.05], horizon=10)
        block = state.target_block + np.array([0.0, 0.05 * 4 * 0.05])
        if not np.all((block > task.WORKSPACE[:, 0]) & (block < task.WORKSPACE[:, 1] - 0.05)):
            continue
        later = expert.chunks(chunk[3], block, [0.0, 0.05], horizon=6)
        np.testing.assert_allclose(later, chunk[4:], atol=1e-12)


def test_never_faster_than_cruise_and_slows_down():
    rng = np.random.default_rng(2)
    states = [sample_state(rng) for _ in range(200)]
    joints = np.stack([s.joints for s in states])
    block = np.stack([s.target_block for s in states])
    chunk = expert.chunks(joints, block, horizon=100)
    path = np.concatenate([joints[:, None], chunk], axis=1)
    speed = np.abs(np.diff(path, axis=1)) / 0.05 / expert.CRUISE
    assert speed.max() <= 1.0 + 1e-9
    assert np.all(np.diff(speed.max(axis=-1), axis=1) <= 1e-9)
    tip, direction = kin.tool(chunk[:, -1, :6])
    np.testing.assert_allclose(tip, task.target_point(block), atol=1e-3)
    np.testing.assert_allclose(direction[:, 2], -1.0, atol=1e-3)


def test_already_there_stays():
    block = np.array([0.6, 0.1])
    there = expert.goal(block)
    np.testing.assert_allclose(expert.chunks(there, block), np.tile(there, (16, 1)), atol=1e-12)


def test_sampled_states_are_valid_and_varied():
    rng = np.random.default_rng(3)
    states = [sample_state(rng) for _ in range(500)]
    joints = np.stack([s.joints for s in states])
    assert np.all(joints >= kin.POSITION_LIMITS[:, 0])
    assert np.all(joints <= kin.POSITION_LIMITS[:, 1])
    distance = np.array(
        [
            np.linalg.norm(kin.tool(s.joints[:6])[0] - task.target_point(s.target_block))
            for s in states
        ]
    )
    assert (distance < 0.03).mean() > 0.05
    assert (distance > 0.2).mean() > 0.2
    assert {s.target for s in states} == set(COLOURS)
    assert all(task.target_colour(s.instruction) == s.target for s in states)


def test_sampling_repeats_with_the_seed():
    first, again = (sample_state(np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first.joints, again.joints)
    assert first.blocks == again.blocks
    assert first.instruction == again.instruction
