# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Measured positions for the first ramp: by name, whole, fresh."""

from __future__ import annotations

import math

import pytest

from phyai_ros.nodes.convert import JointSample
from phyai_ros.nodes.joint_buffer import JointBuffer


def sample(**positions: float) -> JointSample:
    return JointSample(1.0, 1_000_000_000, positions)


@pytest.fixture
def buffer() -> JointBuffer:
    return JointBuffer(("pan", "lift", "finger"), max_age=0.5)


def test_two_publishers_each_bring_a_part(buffer):
    buffer.add(sample(lift=2.0, pan=1.0), now=10.0)
    assert buffer.positions(10.0) is None
    assert buffer.trouble(10.0) == "no position yet of finger"
    buffer.add(sample(finger=3.0, unrelated=9.0), now=10.1)
    assert buffer.positions(10.1).tolist() == [1.0, 2.0, 3.0]
    assert buffer.trouble(10.1) is None


def test_joints_that_come_under_other_names_are_told_where_ours_are_missing(buffer):
    """A prefix that the YAML does not have is the commonest reason for an arm that stands."""
    buffer.add(sample(left_pan=1.0, left_lift=2.0, finger=3.0), now=10.0)
    assert buffer.trouble(10.0) == "no position yet of pan, lift; others come: left_lift, left_pan"
    assert buffer.trouble(10.6) == "no position yet of pan, lift"
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now=11.0)
    assert buffer.trouble(11.0) is None
    buffer.add(sample(**{f"j{i}": 0.0 for i in range(300)}), now=12.0)
    assert buffer.trouble(12.0).endswith(
        "; others come: j100, j101, j102, j103, j104, j105, j106, j107 and 248 more"
    )


def test_one_old_joint_makes_the_whole_unusable(buffer):
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now=10.0)
    buffer.add(sample(pan=1.0, lift=2.0), now=10.6)
    assert buffer.positions(10.6) is None
    assert buffer.trouble(10.6) == "older than 0.5 s: finger"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_position_that_is_no_number_makes_its_joint_unknown_until_a_good_one(buffer, bad):
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now=10.0)
    buffer.add(sample(lift=bad), now=10.1)
    assert buffer.positions(10.1) is None
    assert buffer.trouble(10.1) == "position is not a number: lift"
    buffer.add(sample(lift=2.5), now=10.2)
    assert buffer.positions(10.2).tolist() == [1.0, 2.5, 3.0]


def test_what_was_read_does_not_change_afterwards(buffer):
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now=10.0)
    before = buffer.positions(10.0)
    buffer.add(sample(pan=5.0), now=10.0)
    assert before.tolist() == [1.0, 2.0, 3.0]


def test_clear_forgets(buffer):
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now=10.0)
    buffer.clear()
    assert buffer.positions(10.0) is None


def test_a_joint_of_which_two_topics_say_different_things_is_where_nobody_knows(buffer):
    """A gripper's driver that names the arm's joints too and sends zeros: a first command would
    start from there."""
    for now in (10.0, 10.1, 10.2):
        buffer.add(sample(pan=1.0, lift=2.0), now, "/arm/joint_states")
        buffer.add(sample(pan=0.0, finger=3.0), now, "/gripper/joint_states")
        assert buffer.positions(now) is None
    assert buffer.trouble(10.2) == (
        "pan is 1.000 on /arm/joint_states and 0.000 on /gripper/joint_states: which of them is it?"
    )
    for now in (10.8, 10.9):  # the other names it no more
        buffer.add(sample(pan=1.1, lift=2.0), now, "/arm/joint_states")
        buffer.add(sample(finger=3.0), now, "/gripper/joint_states")
    assert buffer.positions(10.9).tolist() == [1.1, 2.0, 3.0]


def test_two_topics_may_say_the_same(buffer):
    buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), 10.0, "/joint_states")
    buffer.add(sample(pan=1.01), 10.1, "/arm/joint_states")
    assert buffer.positions(10.1).tolist() == [1.01, 2.0, 3.0]
    buffer.add(sample(pan=math.nan), 10.2, "/arm/joint_states")
    assert buffer.positions(10.2) is None
    assert buffer.trouble(10.2) == "position is not a number: pan"


def test_two_publishers_of_one_topic_are_told_apart(buffer):
    """A second driver, or a joint_state_publisher whose sliders stand at zero."""
    for now in (10.0, 10.1):
        buffer.add(sample(pan=1.0, lift=2.0, finger=3.0), now, "/joint_states", b"driver")
        assert (buffer.positions(now) is None) is (now > 10.0)
        buffer.add(sample(pan=0.0, lift=0.0, finger=0.0), now, "/joint_states", b"sliders")
        assert buffer.positions(now) is None
    assert "pan is 1.000 on /joint_states and 0.000 on /joint_states" in buffer.trouble(10.1)


def test_a_driver_that_is_started_again_ever_so_often_leaves_nothing_behind(buffer):
    for k in range(500):
        buffer.add(
            sample(pan=1.0 * k, lift=2.0, finger=3.0),
            10.0 * k,
            "/joint_states",
            bytes([k % 256, k // 256]),
        )
        assert buffer.positions(10.0 * k).tolist() == [1.0 * k, 2.0, 3.0]
    assert len(buffer._said) < 10
