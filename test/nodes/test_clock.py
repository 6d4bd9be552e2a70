# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The node's time between two steps of a simulator's clock."""

from __future__ import annotations

import time

import pytest
from rclpy.clock import ROSClock
from rclpy.time import Time

from phyai_ros.nodes.clock import LONGEST_GAP, RosSeconds


@pytest.fixture
def clock(ros):
    clock = ROSClock()
    clock._set_ros_time_is_active(True)
    return clock


def at(clock: ROSClock, seconds: float) -> None:
    clock.set_ros_time_override(Time(nanoseconds=round(seconds * 1e9), clock_type=clock.clock_type))


def test_a_simulator_slower_than_real_time_never_sends_the_time_back(clock):
    now = RosSeconds(clock)
    read = []
    for step in range(5):
        at(clock, 100.0 + 0.001 * step)
        read.append(now())
        time.sleep(0.01)  # ten times as long as the step
        read.append(now())
    assert read == sorted(read)
    assert read[-1] <= 100.004 + LONGEST_GAP


def test_time_that_goes_back_is_followed(clock):
    now = RosSeconds(clock)
    at(clock, 100.0)
    now()
    at(clock, 50.0)
    assert 50.0 <= now() <= 50.0 + LONGEST_GAP
