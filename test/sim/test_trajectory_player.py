# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from phyai_ros.sim.trajectory_player import TrajectoryPlayer, TrajectoryRefused

JOINTS = ("a", "b")


@pytest.fixture
def player():
    player = TrajectoryPlayer(JOINTS)
    player.start(np.array([0.0, 1.0]))
    return player


def test_it_plays_by_name_through_the_points_to_the_end(player):
    player.accept(["b", "a"], [0.1, 0.2], [[1.1, 0.5], [1.2, 1.0]], [[1.0, 5.0], [0.0, 0.0]])
    np.testing.assert_allclose(player.advance(0.1), [0.5, 1.1])
    np.testing.assert_allclose(player.advance(0.5), [1.0, 1.2])


def test_a_replacement_goes_on_from_where_the_command_is(player):
    player.accept(JOINTS, [1.0], [[1.0, 1.0]], [[0.0, 0.0]])
    before = player.advance(0.5)
    player.accept(JOINTS, [1.0], [[0.0, 1.0]], [[0.0, 0.0]])
    np.testing.assert_allclose(player.advance(0.0), before)
    assert player.advance(0.05)[0] > before[0]  # it was moving that way


@pytest.mark.parametrize(
    ("joints", "times", "positions", "velocities", "says"),
    [
        (["a"], [0.1], [[0.0]], [[0.0]], "don't match"),
        (["a", "c"], [0.1], [[0.0, 0.0]], [[0.0, 0.0]], "Incoming joint c"),
        (JOINTS, [], [], [], "Empty trajectory"),
        (JOINTS, [0.1, 0.1], [[0, 0], [0, 0]], [[0, 0], [0, 0]], "not strictly increasing"),
        (JOINTS, [0.1], [[0, 0]], [[0.1, 0]], "not zero"),
        (JOINTS, [0.1], [[0]], [[0, 0]], "has 1 positions"),
    ],
)
def test_it_refuses_what_the_controller_refuses(player, joints, times, positions, velocities, says):
    with pytest.raises(TrajectoryRefused, match=says):
        player.accept(joints, times, positions, velocities)
    np.testing.assert_allclose(player.advance(1.0), [0.0, 1.0])


def test_an_inactive_controller_takes_nothing():
    with pytest.raises(TrajectoryRefused, match="not active"):
        TrajectoryPlayer(JOINTS).accept(JOINTS, [0.1], [[0, 0]], [[0, 0]])
