# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Guard: no sequence of targets gets past the limits."""

import numpy as np
import pytest
from handoff_rig import limits
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.bounds import Bounds
from phyai_ros.control.guard import Guard, Limits

DT = 0.05
EPS = 1e-9


def check(guard, commands, start):
    lim = guard.limits
    position = np.vstack([start, *commands])
    speed = np.diff(position, axis=0) / DT
    inside = (start >= lim.lower) & (start <= lim.upper)
    assert np.isfinite(position).all()
    assert ((position >= lim.lower - EPS) | ~inside).all()
    assert ((position <= lim.upper + EPS) | ~inside).all()
    assert (np.abs(speed) <= lim.velocity + 1e-6).all()
    change = np.abs(np.diff(np.vstack([np.zeros_like(start), speed]), axis=0)) / DT
    assert (change <= lim.acceleration + 1e-6).all()


numbers = st.floats(allow_nan=True, allow_infinity=True)
targets = st.one_of(st.floats(-4, 4), numbers)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.tuples(targets, targets)), min_size=1, max_size=60),
    st.tuples(st.floats(-3.5, 3.5), st.floats(-3.5, 3.5)),
    st.floats(0.1, 10),
    st.floats(0.1, 100),
)
def test_any_targets_from_any_start_stay_within_limits(sequence, start, velocity, acceleration):
    guard = Guard(limits(velocity=velocity, acceleration=acceleration), DT)
    guard.start(start)
    commands = [
        guard.brake() if target is None else guard.step(np.array(target))[0] for target in sequence
    ]
    check(guard, commands, np.array(start))


@settings(max_examples=100, deadline=None)
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.5, 50))
def test_a_step_is_reached_without_passing_it(start, goal, acceleration):
    guard = Guard(limits(names=("a",), acceleration=acceleration), DT)
    guard.start([start])
    path = [guard.step(np.array([goal]))[0][0] for _ in range(600)]
    assert path[-1] == pytest.approx(goal, abs=1e-6)
    low, high = min(start, goal), max(start, goal)
    assert min(path) >= low - EPS
    assert max(path) <= high + EPS


def test_what_is_within_limits_passes_unchanged_and_uncounted():
    guard = Guard(limits(), DT)
    guard.start([0.0, 0.0])
    for k in range(200):
        target = np.array([1.0 - np.cos(k * DT), np.cos(0.5 * k * DT) - 1.0])
        command, limited = guard.step(target)
        np.testing.assert_allclose(command, target, atol=1e-12)
        assert not limited
    assert guard.limited_ticks == 0
    assert not guard.interventions


def test_every_intervention_is_counted_under_its_kind_and_joint():
    guard = Guard(limits(), DT)
    guard.start([0.0, 0.0])
    guard.step(np.array([0.0, 5.0]))
    assert guard.interventions["position", "b"] == 1
    assert guard.interventions["velocity", "b"] == 1
    assert guard.interventions["acceleration", "b"] == 1
    guard.step(np.array([np.inf, 0.0]))
    assert guard.interventions["non_finite", "a"] == 1
    assert guard.limited_ticks == 2
    assert not any(joint == "a" and kind != "non_finite" for kind, joint in guard.interventions)


def test_outside_its_limits_an_arm_is_only_moved_inwards():
    guard = Guard(limits(), DT)
    guard.start([3.4, -3.2])
    before = np.array([3.4, -3.2])
    for _ in range(100):
        command, _ = guard.step(np.array([9.0, -9.0]))
        assert (np.abs(command) <= np.abs(before) + EPS).all()
        before = command
    np.testing.assert_allclose(before, [3.0, -3.0], atol=1e-6)


def test_inf_is_not_clamped_to_full_travel():
    """inspect-robots#356: inf clamped to the joint limit is a full-speed move."""
    guard = Guard(limits(), DT)
    guard.start([0.0, 0.0])
    command, limited = guard.step(np.array([np.inf, 0.0]))
    assert limited
    assert command.tolist() == [0.0, 0.0]


def test_brake_is_at_the_acceleration_limit():
    guard = Guard(limits(acceleration=4.0), DT)
    guard.start([0.0, 0.0])
    for k in range(20):
        guard.step(np.array([0.04 * k, 0.0]))
    speeds = []
    while not guard.standing:
        guard.brake()
        speeds.append(guard.velocity[0])
    assert np.diff(speeds)[:-1] == pytest.approx(-0.2)


places = st.one_of(st.floats(-3.4, 3.4), st.just(np.nan))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=20),
    st.tuples(places, places),
    st.floats(0.3, 40),
)
def test_giving_way_stays_within_limits_and_ends_where_the_arm_is(sequence, to, acceleration):
    """Each joint that is told a place stands there in the end, each other one just brakes."""
    guard = Guard(limits(acceleration=acceleration), DT)
    guard.start([0.0, 0.0])
    commands = [guard.step(np.array(target))[0] for target in sequence]
    braked, other = guard.fork(), guard.fork()
    while not braked.standing:
        braked.brake()
    guard.give_way(np.array(to))
    stepped = guard.fork()
    for _ in range(5000):
        if guard.standing:
            break
        commands.append(guard.brake())
    assert guard.standing
    check(guard, commands, np.zeros(2))
    expected = np.where(np.isnan(to), braked.last, np.clip(to, -3.0, 3.0))
    np.testing.assert_allclose(guard.last, expected, atol=2e-9)
    for each in (stepped, other):  # a row ends it: afterwards it brakes as if nothing had been
        each.step(np.zeros(2))
        each.brake()
    np.testing.assert_array_equal(stepped.last, other.last)


def test_the_first_command_needs_a_start():
    with pytest.raises(RuntimeError, match="start"):
        Guard(limits(), DT).step(np.zeros(2))
    with pytest.raises(ValueError, match=r"finite positions of \['a', 'b'\]"):
        Guard(limits(), DT).start([np.nan, 0.0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"upper": [-4.0, 3.0]}, "a: expected lower < upper"),
        ({"velocity": [0.0, 1.0]}, "a: expected velocity"),
        ({"acceleration": [1.0]}, "acceleration: expected 2 finite"),
        ({"lower": [np.nan, 0.0]}, "lower: expected 2 finite"),
        ({"names": ("a", "a")}, "no repetition"),
    ],
)
def test_bad_limits_are_named(change, text):
    good = {
        "names": ("a", "b"),
        "lower": [-3.0, -3.0],
        "upper": [3.0, 3.0],
        "velocity": [1.0, 1.0],
        "acceleration": [1.0, 1.0],
    }
    with pytest.raises(ValueError, match=text):
        Limits(**{**good, **change})


class Slow(Bounds):
    """Without the short cut for what is within the limits."""

    def _passes(self, wanted, change, closing, position):
        return False


@settings(max_examples=500, deadline=None)
@given(*[st.floats(-3.2, 3.2)] * 2, st.floats(-2, 2), st.floats(-0.5, 0.5), st.floats(0.5, 50))
def test_the_short_cut_changes_nothing(position, goal, speed, moved, acceleration):
    values = (-3.0, 3.0, 2.0, acceleration, DT)
    goal = min(max(goal, -3.0), 3.0)
    near = position + 0.1 * (goal - position)
    for target in (goal, min(max(near, -3.0), 3.0)):
        fast = Bounds(*values).approach(position, speed, target, target - moved)
        slow = Slow(*values).approach(position, speed, target, target - moved)
        assert fast == pytest.approx(slow, abs=1e-9)
