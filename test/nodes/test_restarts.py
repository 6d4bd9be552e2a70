# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which processes come back: crashes, not refusals; a crash loop ends, crashes far apart do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.nodes.restarts import DELAYS, NEVER, OPTIONAL, WINDOW, Restarts


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("executable", "status", "again"),
    [
        ("policy_node", -9, True),
        ("handoff_node", -11, True),
        ("policy_node", 1, False),
        ("policy_node", 0, False),
        *((executable, -9, False) for executable in NEVER),
    ],
)
def test_what_was_killed_comes_back_and_what_gave_up_does_not(executable, status, again):
    assert (Restarts().after(executable, status) is not None) is again


def test_a_crash_loop_ends_and_each_try_waits_longer():
    restarts = Restarts(Clock())
    tries = [restarts.after("policy_node", -9) for _ in range(len(DELAYS) + 1)]
    assert tries == [*DELAYS, None]
    assert list(DELAYS) == sorted(DELAYS)


def test_what_only_shows_pictures_has_the_same_budget():
    restarts = Restarts(Clock())
    for executable in OPTIONAL:
        assert restarts.after(executable, 1) is None
        tries = [restarts.after(executable, -9) for _ in range(len(DELAYS) + 1)]
        assert tries == [*DELAYS, None]


def test_one_process_in_a_crash_loop_costs_another_nothing():
    restarts = Restarts(Clock())
    for _ in range(len(DELAYS) + 1):
        restarts.after("policy_node", -9)
    assert restarts.after("handoff_node", -9) == DELAYS[0]


@given(st.integers(1, 500))
def test_crashes_far_apart_are_never_too_many(crashes):
    clock = Clock()
    restarts = Restarts(clock)
    for _ in range(crashes):
        assert restarts.after("policy_node", -9) == DELAYS[0]
        clock.now += WINDOW


@given(st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_window_ever_has_more_restarts_than_allowed(pauses):
    clock = Clock()
    restarts = Restarts(clock)
    given_at = []
    for pause in pauses:
        clock.now += pause
        if restarts.after("policy_node", -9) is not None:
            given_at.append(clock.now)
    for at in given_at:
        assert sum(at - WINDOW < other <= at for other in given_at) <= len(DELAYS)
