# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The soak's own check of commands: it passes what the guard sends, it catches what it may not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.control.guard import Guard, Limits
from phyai_ros.tools.soaking.limits import Bounds, CommandCheck

PERIOD = 0.05
NAMES = ("arm", "grip")
LOWER, UPPER = np.array([-2.0, 0.0]), np.array([2.0, 0.04])
VELOCITY, ACCELERATION = np.array([2.0, 0.15]), np.array([8.0, 2.0])
HELD = np.array([False, True])


def check():
    return CommandCheck(Bounds(NAMES, LOWER, UPPER, VELOCITY, ACCELERATION, HELD, PERIOD))


def send(checker, rows, *, start=0, at=100.0, publisher=b"p", measured=(0.0, 0.02)):
    found = []
    for i, row in enumerate(rows):
        now = at + i * PERIOD
        found += checker(np.array(row, float), now, publisher, start + i, np.array(measured))
    return found


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-0.1, 0.1)), min_size=1, max_size=60))
def test_whatever_the_guard_lets_through_is_within_limits(targets):
    guard = Guard(Limits(NAMES, LOWER, UPPER, VELOCITY, ACCELERATION), PERIOD)
    guard.start([0.0, 0.02])
    assert send(check(), [guard.step(np.array(target))[0] for target in targets]) == []


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(0.0, 0.02), (np.nan, 0.02)], "arm: not finite"),
        ([(0.0, 0.02), (0.0, np.inf)], "grip: not finite"),
        ([(0.0, 0.02), (0.0, 0.041)], "grip: outside its position limits"),
        ([(0.0, 0.02), (0.11, 0.02)], "arm: 1.100 of its velocity limit"),
        ([(0.0, 0.02), (0.02, 0.02), (0.065, 0.02)], "arm: 1.250 of its acceleration limit"),
        ([(0.0,)], "1 values for 2 joints"),
    ],
)
def test_each_limit_is_watched(rows, says):
    assert any(says in text for text in send(check(), rows))


def test_a_first_command_begins_where_the_arm_is():
    assert send(check(), [(1.0, 0.02)], measured=(0.98, 0.0)) == []
    (text,) = send(check(), [(1.0, 0.02)], measured=(0.5, 0.0))
    assert "arm: a first command 0.500 from where the arm is" in text


def test_a_first_command_is_judged_when_the_arm_is_heard():
    """The handoff may hear an arm that was started again before the one who judges does."""
    for now, wrong in ((100.1, True), (100.5, False)):  # 1 rad at 2 rad/s takes 0.5 s
        checker = check()
        assert checker(np.array([1.0, 0.02]), 100.0, b"p", 0, None) == []
        assert checker.unplaced == 1
        found = checker.place(np.array([0.0, 0.02]), now)
        assert bool(found) == wrong
        assert not wrong or "arm: a first command 1.000 from where the arm is" in found[0]
        assert checker.unplaced == 0
        assert checker.place(np.array([0.0, 0.02]), now) == []


def test_a_position_that_is_not_a_number_is_not_near():
    checker = check()
    checker(np.zeros(2), 100.0, b"p", 0, None)
    assert checker.place(np.array([np.nan, 0.02]), 100.0)


def test_after_a_pause_or_from_another_publisher_it_may_begin_elsewhere_and_only_then():
    for later in ({"at": 101.0}, {"publisher": b"q"}):
        checker = check()
        assert send(checker, [(0.0, 0.02)]) == []
        assert send(checker, [(1.0, 0.02)], start=1, measured=(1.0, 0.02), **later) == []
    checker = check()
    assert send(checker, [(0.0, 0.02)]) == []
    assert send(checker, [(1.0, 0.02)], start=1, at=100.0 + PERIOD, measured=(1.0, 0.02))


def test_after_a_pause_it_may_also_go_on_from_the_last_command():
    checker = check()
    assert send(checker, [(0.5, 0.02)], measured=(0.5, 0.02)) == []
    assert send(checker, [(0.5, 0.02)], start=1, at=101.0, measured=(0.3, 0.02)) == []


def test_commands_that_were_not_heard_are_counted_and_not_held_against_the_next():
    checker = check()
    send(checker, [(0.0, 0.02)])
    assert send(checker, [(0.19, 0.02)], start=2, at=100.0 + 2 * PERIOD) == []
    assert checker.lost == 1
