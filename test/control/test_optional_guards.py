# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Workspace box and gripper stall detector."""

import numpy as np
import pytest
from handoff_rig import limits, rig
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.guard import Guard
from phyai_ros.control.stall import Closing, StallDetector
from phyai_ros.control.workspace import Workspace


def planar(q):
    """A two-link arm of 0.5 m links in a plane."""
    x = 0.5 * np.cos(q[0]) + 0.5 * np.cos(q[0] + q[1])
    y = 0.5 * np.sin(q[0]) + 0.5 * np.sin(q[0] + q[1])
    return np.array([x, y, 0.0])


def boxed(upper=(0.8, 0.6, 1.0)):
    return Workspace(planar, (-2.0, -0.6, -1.0), upper)


def test_the_tool_stops_before_the_wall_and_may_come_back():
    guard = Guard(limits(), 0.05, boxed())
    guard.start([1.5, -1.5])
    path = [guard.step(np.array([0.0, 0.0]))[0] for _ in range(100)]
    assert max(planar(q)[0] for q in path) <= 0.8 + 1e-9
    assert guard.interventions["workspace", "x"] > 0
    assert guard.limited_ticks > 0
    for _ in range(100):
        last, _ = guard.step(np.array([1.5, -1.5]))
    np.testing.assert_allclose(last, [1.5, -1.5], atol=1e-6)


def test_a_tool_outside_is_only_moved_inwards():
    guard = Guard(limits(), 0.05, boxed((0.3, 2.0, 1.0)))
    guard.start([0.0, 0.5])
    out = planar(np.array([0.0, 0.5]))[0]
    guard.step(np.array([0.0, 0.0]))
    assert planar(guard.last)[0] <= out + 1e-9
    for _ in range(200):
        guard.step(np.array([1.2, 1.2]))
    np.testing.assert_allclose(guard.last, [1.2, 1.2], atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=15))
def test_any_targets_keep_the_tool_in_the_box_up_to_the_braking_curve(targets):
    """A braked path is a straight line in the joints and curves in space: the box holds at every
    accepted command and where it would come to rest, between them within a centimetre."""
    guard = Guard(limits(acceleration=20.0), 0.05, boxed())
    guard.start([1.5, -1.5])
    for target in targets:
        for _ in range(10):
            guard.step(np.array(target))
            assert boxed().excess(guard.last).max() < 0.01


def test_an_arm_that_was_pushed_out_of_its_box_is_not_followed_there():
    guard = Guard(limits(acceleration=20.0), 0.05, boxed())
    guard.start([1.5, -1.5])
    guard.give_way(np.array([0.0, 0.0]))
    for _ in range(200):
        guard.brake()
    assert guard.standing
    assert planar(guard.last)[0] <= 0.8 + 1e-2
    assert guard.last[0] < 1.4  # it went as far as it may


def test_bad_boxes_are_named():
    with pytest.raises(ValueError, match="lower < upper"):
        Workspace(planar, (0, 0, 0), (1, 0, 1))


def watch(**changes):
    return StallDetector(("arm", "finger"), {"finger": Closing(0.0, 0.01)}, 5, **changes)


def feed(detector, positions, executing=True):
    return [detector.update(executing, np.array([0.0, p])) for p in positions]


def test_closed_and_untouched_is_a_stall_counted_once():
    detector = watch()
    result = feed(detector, [0.0] * 8)
    assert result == [""] * 4 + ["finger"] * 4
    assert detector.count == 1
    assert feed(detector, [0.03, 0.0, 0.0]) == ["", "", ""]


def test_open_or_moving_or_standing_is_none():
    detector = watch()
    assert not any(feed(detector, [0.03] * 20))
    assert not any(feed(detector, [0.0, 0.005] * 10))
    assert not any(feed(detector, [0.0] * 20, executing=False))
    assert detector.count == 0


def test_a_slow_creep_is_movement():
    detector = watch(change=0.0015)
    assert not any(feed(detector, np.arange(20) * 0.0005))


def test_the_handoff_names_a_stalled_gripper_and_a_new_epoch_starts_anew():
    stall = StallDetector(("a", "b"), {"b": Closing(0.0, 0.01)}, 20)
    run = rig(lambda t: np.array([0.1 * t, 0.0]), discrete=("b",))
    run.handoff.stall = stall
    run.run(40)
    assert run.handoff.stalled == "b"
    assert stall.count == 1
    run.handoff.reset(run.now)
    run.run(5)
    assert run.handoff.stalled == ""
