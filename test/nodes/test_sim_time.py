# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import math

import pytest

from phyai_ros.nodes.sim_time import SimTime


def test_steps_what_passed_on_the_wall():
    clock = SimTime(1.0, simulated_stamps=False)
    assert clock.advance(100.0, 5_000) == 0.0
    assert clock.advance(100.005, 6_000) == pytest.approx(0.005)
    assert clock.stamp_ns == 6_000
    assert clock.elapsed == pytest.approx(0.005)


def test_simulated_stamps_follow_the_speed():
    clock = SimTime(0.5, simulated_stamps=True)
    clock.advance(0.0, 1_000_000_000)
    for i in range(1, 101):
        clock.advance(i * 0.01, 77)
    assert clock.stamp_ns == pytest.approx(1_500_000_000, abs=10)
    assert clock.factor() == pytest.approx(0.5)


def test_a_stall_is_given_up_not_made_up():
    clock = SimTime(1.0, simulated_stamps=False)
    clock.advance(0.0, 0)
    assert clock.advance(1.0, 0) == pytest.approx(0.1)
    assert clock.lost == pytest.approx(0.9)
    assert clock.factor() == pytest.approx(0.1)


def test_factor_forgets_old_stalls():
    clock = SimTime(1.0, simulated_stamps=False)
    assert math.isnan(clock.factor())
    clock.advance(0.0, 0)
    clock.advance(1.0, 0)
    for i in range(1, 301):
        clock.advance(1.0 + i * 0.01, 0)
    assert clock.factor() == pytest.approx(1.0)
