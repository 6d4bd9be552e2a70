# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import task
from phyai_ros.sim.scene import COLOURS

DOWN = np.array([0.0, 0.0, -1.0])


@pytest.mark.parametrize("wording", task.WORDINGS)
@pytest.mark.parametrize("colour", COLOURS)
def test_every_wording_names_its_colour(wording, colour):
    assert task.target_colour(wording.format(colour)) == colour
    assert task.target_colour(wording.format(colour).upper()) == colour


@pytest.mark.parametrize("text", ["", "reach the block", "the red or the blue block", "reddish"])
def test_ambiguous_instruction_is_refused_with_the_candidates(text):
    with pytest.raises(task.InstructionError, match="red, green, blue"):
        task.target_colour(text)


def test_blocks_never_overlap_and_stay_in_the_workspace():
    rng = np.random.default_rng(0)
    for _ in range(300):
        blocks = task.draw_blocks(rng)
        assert list(blocks) == list(COLOURS)
        centres = np.array([b[:2] for b in blocks.values()])
        assert np.all(centres >= task.WORKSPACE[:, 0])
        assert np.all(centres <= task.WORKSPACE[:, 1])
        for i in range(3):
            for j in range(i):
                assert np.linalg.norm(centres[i] - centres[j]) >= task.SEPARATION


def test_others_keep_off_the_belt():
    rng = np.random.default_rng(0)
    for _ in range(100):
        blocks = task.draw_blocks(rng, ("green", 0.64))
        assert blocks["green"][0] == 0.64
        assert all(abs(blocks[c][0] - 0.64) >= task.SEPARATION for c in ("red", "blue"))


def test_starts_are_over_the_table_and_within_limits():
    rng = np.random.default_rng(0)
    for _ in range(300):
        start = task.draw_start(rng)
        assert np.all(start >= kin.POSITION_LIMITS[:, 0])
        assert np.all(start <= kin.POSITION_LIMITS[:, 1])
        assert kin.tool(start[:6])[0][2] > 0.08


def hold(judge, start, end, tip, direction=DOWN, step=0.002):
    for now in np.arange(start, end + step / 2, step):
        judge.update(now, np.asarray(tip), direction, np.array([0.6, 0.1]))


TARGET = np.array([0.6, 0.1, 0.11])


def test_success_after_half_a_second_inside():
    judge = task.Judge()
    hold(judge, 0.0, 0.49, TARGET + np.array([0.0, 0.029, 0.0]))
    assert not judge.success
    hold(judge, 0.492, 0.5, TARGET)
    assert judge.success
    assert judge.distance == pytest.approx(0.0)


def test_leaving_starts_the_time_again():
    judge = task.Judge()
    hold(judge, 0.0, 0.4, TARGET)
    hold(judge, 0.402, 0.404, TARGET + np.array([0.031, 0.0, 0.0]))
    hold(judge, 0.406, 0.9, TARGET)
    assert not judge.success
    hold(judge, 0.902, 0.908, TARGET)
    assert judge.success


def test_tilted_tool_does_not_count():
    judge = task.Judge()
    tilted = np.array([np.sin(0.3), 0.0, -np.cos(0.3)])
    hold(judge, 0.0, 2.0, TARGET, tilted)
    assert not judge.success
