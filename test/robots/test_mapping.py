# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Mappings there and back, exactly, in the conventions robots really have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from phyai_ros.robots.mapping import Affine, Crank, Opening, Side

POSITIONS = np.linspace(-3, 3, 101)


def both_ways(mapping, positions):
    values = mapping.to_model(positions)
    np.testing.assert_allclose(mapping.to_robot(values), positions, atol=1e-12)
    np.testing.assert_allclose(mapping.to_model(mapping.to_robot(values)), values, atol=1e-12)
    return values


def test_identity_is_exact_to_the_bit():
    np.testing.assert_array_equal(Affine().to_model(POSITIONS), POSITIONS)
    np.testing.assert_array_equal(Affine().to_robot(POSITIONS), POSITIONS)


@given(
    st.sampled_from([-1, 1]),
    st.floats(0.01, 100),
    st.floats(-10, 10),
    st.floats(-10, 10),
)
def test_affine_there_and_back(sign, scale, offset, position):
    mapping = Affine(sign=sign, scale=scale, offset=offset)
    back = mapping.to_robot(mapping.to_model(np.asarray(position)))
    assert back == pytest.approx(position, abs=1e-12, rel=1e-12)


def test_degrees_and_a_flipped_joint():
    degrees = Affine(scale=180 / np.pi)
    assert degrees.to_model(np.asarray(np.pi / 2)) == pytest.approx(90.0)
    assert Affine(sign=-1).to_model(np.asarray(0.3)) == -0.3


def test_droid_gripper_is_one_minus_g():
    """DROID stores 1 - g: 0 open, 1 closed, for a Robotiq whose joint closes at 0.8 rad."""
    g = Opening(zero=0.8, one=0.0)
    stored = Opening(zero=0.0, one=0.8)
    positions = np.linspace(0, 0.8, 9)
    np.testing.assert_allclose(stored.to_model(positions), 1 - g.to_model(positions), atol=1e-15)
    both_ways(g, positions)
    both_ways(stored, positions)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_aloha_command_in_joint_space(share):
    """openpi#360, PR#557, #405: wrong constants open and close the gripper again and again. The
    command is a share of the motor's angle (ALOHA 2: 0.6197 closed, 1.6214 rad open)."""
    command = Crank(
        robot=Side(quantity="angle", zero=0.6197, one=1.6214),
        model=Side(quantity="angle", zero=0.5476, one=1.6296),
    )
    value = command.to_model(np.asarray(share))
    assert command.to_robot(value) == pytest.approx(share, abs=1e-12)
    assert value == pytest.approx((0.6197 + share * 1.0017 - 0.5476) / 1.0820, abs=1e-9)


def test_aloha_state_in_linear_space():
    """The state is a share of the finger's opening (0.01844 closed, 0.05800 m open); the policy
    wants a share of the motor's angle. Closed, the crank stands at asin(x) of its triangle."""
    state = Crank(
        robot=Side(quantity="opening", zero=0.01844, one=0.05800),
        model=Side(quantity="angle", zero=0.5476, one=1.6296),
    )
    values = both_ways(state, np.linspace(0.0, 0.99, 100))
    assert (np.diff(values) > 0).all()
    x, r, a = 0.01844 + 0.5 * (0.05800 - 0.01844), 0.022, 0.036
    angle = np.arcsin((r * r + x * x - a * a) / (2 * r * x))
    assert state.to_model(np.asarray(0.5)) == pytest.approx((angle - 0.5476) / 1.0820)


def test_aloha_state_and_command_agree_on_the_same_gripper():
    """The two conventions of one physical opening meet in the policy's numbers."""
    model = Side(quantity="angle", zero=0.5476, one=1.6296)
    state = Crank(robot=Side(quantity="opening", zero=0.01844, one=0.05800), model=model)
    command = Crank(robot=Side(quantity="angle", zero=0.6197, one=1.6214), model=model)
    opening = Crank(robot=Side(quantity="opening"), model=Side(quantity="angle"))
    for metres in (0.02, 0.035, 0.05):
        angle = opening.to_model(np.asarray(metres))
        seen = state.to_model(np.asarray((metres - 0.01844) / (0.05800 - 0.01844)))
        sent = command.to_robot(seen)
        assert 0.6197 + sent * (1.6214 - 0.6197) == pytest.approx(angle, abs=1e-12)


def test_bad_mappings_are_refused():
    with pytest.raises(ValidationError, match="two different positions"):
        Opening(zero=0.1, one=0.1)
    with pytest.raises(ValidationError, match="less than arm_length"):
        Crank(robot=Side(quantity="angle"), model=Side(quantity="opening"), horn_radius=0.05)
    with pytest.raises(ValidationError):
        Affine(scale=0.0)


@given(st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=8))
def test_a_gripper_told_to_close_beyond_closed_does_not_open(openings):
    """A policy that squeezes overshoots its range: the crank has no angle there, least of all the
    one of a gripper that is wide open."""
    metres = Crank(robot=Side(quantity="angle"), model=Side(quantity="opening"))
    angles = metres.to_robot(np.array(sorted(openings)))
    assert (np.diff(angles) >= 0.0).all()
    assert metres.to_robot(np.array(-0.001)) == metres.to_robot(np.array(0.001))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_crank_makes_a_number_of_what_is_none(value):
    metres = Crank(robot=Side(quantity="angle"), model=Side(quantity="opening"))
    assert not np.isfinite(metres.to_robot(np.array([value, 0.03]))[0])
