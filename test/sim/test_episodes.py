# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from phyai_ros.sim import expert, world
from phyai_ros.sim.episodes import Episodes, Phase


@pytest.fixture
def episodes():
    return Episodes(world.make(), first_seed=7, time_limit=3.0)


def drive(episodes, seconds):
    """The expert in closed loop; the outcome if the episode ended."""
    policy = expert.Expert(episodes.world)
    for _ in range(round(seconds / 0.05)):
        assert episodes.command(policy.chunk(horizon=1)[0]) is None
        episodes.world.step(0.05)
        if outcome := episodes.update():
            return outcome
    return None


def test_success_ends_the_episode_once(episodes):
    outcome = drive(episodes, 5.0)
    assert outcome.success
    assert 0.5 < outcome.seconds <= 3.0
    assert outcome.distance < 0.03
    assert outcome.over == episodes.world.target
    assert episodes.phase is Phase.OVER
    episodes.world.step(0.05)
    assert episodes.update() is None


def test_the_wrong_block_is_named(episodes):
    """As after a wrong instruction: the arm goes where it was told, the task stays undone."""
    state = episodes.world.state()
    other = next(c for c in state.blocks if c != state.target)
    block = np.array(state.blocks[other][:2])
    outcome = None
    while outcome is None:
        joints = episodes.world.physics.joints()[0]
        assert episodes.command(expert.chunks(joints, block, horizon=1)[0]) is None
        episodes.world.step(0.05)
        outcome = episodes.update()
    assert not outcome.success
    assert outcome.over == other


def test_time_starts_with_the_first_command(episodes):
    episodes.world.step(10.0)
    assert episodes.update() is None
    assert episodes.phase is Phase.WAITING
    assert drive(episodes, 5.0).success


def test_time_limit_without_success(episodes):
    still = episodes.world.physics.joints()[0]
    assert episodes.command(still) is None
    episodes.world.step(2.9)
    assert episodes.update() is None
    episodes.world.step(0.2)
    outcome = episodes.update()
    assert not outcome.success
    assert outcome.seconds == pytest.approx(3.1, abs=0.01)
    assert outcome.commands == 1
    assert outcome.over is None


def test_command_left_over_from_the_episode_before_moves_nothing(episodes):
    drive(episodes, 5.0)
    stale = episodes.world.physics.goal
    episodes.begin_next()
    start = episodes.world.physics.joints()[0]
    refusal = episodes.command(stale)
    assert "_joint" in refusal
    assert "0.2" in refusal
    episodes.world.step(0.5)
    np.testing.assert_allclose(episodes.world.physics.joints()[0], start, atol=1e-3)
    assert episodes.phase is Phase.WAITING
    assert episodes.refused == 1
    assert drive(episodes, 5.0).success


def test_each_episode_has_the_next_seed(episodes):
    first = episodes.description()
    drive(episodes, 5.0)
    ended = json.loads(json.dumps(episodes.description()))
    assert ended["seed"] == first["seed"] == 7
    assert ended["success"] is True
    episodes.begin_next()
    second = episodes.description()
    assert second["seed"] == 8
    assert second["episode"] == 1
    assert "success" not in second
    assert second["instruction"] == world.make(seed=8).instruction
