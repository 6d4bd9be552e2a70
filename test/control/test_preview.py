# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What is promised of the ticks to come is what they do."""

import numpy as np
from handoff_rig import Rig, limits
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.preview import knot_velocities
from phyai_ros.control.states import State

PERIOD = 0.05


def moving(delay=lambda n: 1 if n == 1 else None):
    handoff = Handoff(limits(acceleration=4.0), HandoffConfig(PERIOD, 8))
    return Rig(handoff, lambda t: np.array([np.sin(t), 0.4 * t]), delay)


def test_the_preview_is_what_the_next_ticks_command_and_ends_at_rest():
    rig = moving()
    rig.run(6)
    assert rig.handoff.state is State.EXECUTING
    before = rig.handoff.counters.accepted_chunks
    limited = rig.handoff.guard.limited_ticks
    promised = rig.handoff.ahead()
    assert rig.handoff.guard.limited_ticks == limited
    first = len(rig.commands)
    rig.run(len(promised))
    assert rig.handoff.counters.accepted_chunks == before  # else the promise was not for this plan
    done = np.array([c.positions for c in rig.commands[first:]])
    np.testing.assert_array_equal(promised, done)
    assert rig.handoff.guard.standing
    np.testing.assert_array_equal(promised[-1], promised[-2])


def test_a_hold_is_previewed_as_braking():
    rig = moving(lambda n: 1)
    rig.run(30)
    rig.handoff.hold("test")
    rig.one()
    promised = rig.handoff.ahead()
    assert 0 < len(promised) < 20
    first = len(rig.commands)
    rig.run(len(promised))
    done = np.array([c.positions for c in rig.commands[first:]])
    np.testing.assert_array_equal(promised, done)


def test_nothing_is_previewed_of_an_arm_that_was_never_commanded():
    assert Handoff(limits(), HandoffConfig(PERIOD, 8)).ahead().shape == (0, 2)


numbers = st.floats(-3, 3, allow_nan=False, width=32)


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=12), numbers)
def test_a_cubic_through_the_points_stays_between_them(values, arriving):
    points = np.array(values)[:, None]
    velocities = knot_velocities(points, np.array([arriving]), PERIOD)
    assert velocities.shape == points.shape
    assert velocities[-1] == 0.0
    s = np.linspace(0, 1, 41)[:, None]
    for i in range(len(points) - 1):
        p0, p1 = points[i], points[i + 1]
        v0, v1 = PERIOD * velocities[i], PERIOD * velocities[i + 1]
        curve = (
            (2 * s**3 - 3 * s**2 + 1) * p0
            + (s**3 - 2 * s**2 + s) * v0
            + (3 * s**2 - 2 * s**3) * p1
            + (s**3 - s**2) * v1
        )
        assert curve.min() >= min(p0, p1) - 1e-6
        assert curve.max() <= max(p0, p1) + 1e-6


def test_a_steady_motion_keeps_its_speed_at_every_point_but_the_last():
    points = (0.02 * np.arange(1, 6))[:, None]
    velocities = knot_velocities(points, np.array([0.4]), PERIOD)
    np.testing.assert_allclose(velocities[:-1], 0.4)
