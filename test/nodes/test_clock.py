# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The node's time between two steps of a simulator's clock."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

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


class Overtaken:
    """A simulated clock: who reads it first is overtaken by a thread that reads a later time."""

    ros_time_is_active = True

    def __init__(self) -> None:
        self.times = iter([10_000_000_000, 10_040_000_000, 10_040_000_000])
        self.meanwhile = lambda: None

    def now(self):
        read, meanwhile = next(self.times), self.meanwhile
        self.meanwhile = lambda: None
        meanwhile()
        return SimpleNamespace(nanoseconds=read)


def test_time_does_not_go_back_because_two_threads_ask_for_it():
    clock = Overtaken()
    seconds, given = RosSeconds(clock), []

    def ask() -> None:
        given.append(seconds())

    other = threading.Thread(target=ask)

    def meanwhile() -> None:
        other.start()
        other.join(0.2)  # over at once, unless the first one's turn has to end before

    clock.meanwhile = meanwhile
    ask()
    other.join()
    ask()
    assert given == sorted(given)
