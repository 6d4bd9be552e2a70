# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.program_time import ProgramTime

START = 1_795_000_000.0


def test_at_full_speed_it_is_wall_time_to_the_bit():
    time = ProgramTime()
    for i in range(100):
        wall = START + i * 0.05 + 0.0001 * (i % 3)
        assert time.advance(wall) == wall
        assert time.program(wall - 0.3) == wall - 0.3
        assert time.wall(wall + 0.2) == wall + 0.2


def test_at_half_speed_a_second_of_the_plan_takes_two():
    time = ProgramTime()
    began = time.advance(START)
    time.factor = 0.5
    for i in range(1, 41):
        now = time.advance(START + 0.05 * i)
    assert now - began == pytest.approx(1.0, abs=1e-6)
    assert time.program(START + 1.0) - began == pytest.approx(0.5, abs=1e-6)
    assert time.wall(began + 0.5) == pytest.approx(START + 1.0, abs=1e-6)


def test_a_stretch_at_full_speed_between_two_slow_ones_is_placed_as_it_was():
    time = ProgramTime()
    time.advance(START)
    for i in range(1, 301):
        time.factor = 1.0 if 100 < i <= 200 else 0.5
        time.advance(START + 0.01 * i)
    lag = [START + t - time.program(START + t) for t in (0.5, 1.0, 1.5, 2.0, 3.0)]
    assert lag == pytest.approx([0.25, 0.5, 0.5, 0.5, 1.0], abs=0.011)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.02, 1.0), st.floats(0.001, 0.2)), min_size=1, max_size=60),
    st.floats(0.0, 1.0),
)
def test_places_are_ordered_and_there_is_a_way_back(steps, share):
    time, wall, seen = ProgramTime(), START, []
    time.advance(wall)
    for factor, seconds in steps:
        time.factor = factor
        wall += seconds
        seen.append((wall, time.advance(wall)))
    for (w0, p0), (w1, p1) in itertools.pairwise(seen):
        assert p1 > p0
        at = w0 + share * (w1 - w0)
        assert time.wall(time.program(at)) == pytest.approx(at, abs=5e-5)
    for w, p in seen:
        assert time.program(w) == pytest.approx(p, abs=5e-6)


def test_a_jump_of_the_clock_is_a_jump_of_program_time():
    time = ProgramTime()
    time.advance(START)
    time.factor = 0.5
    before = time.advance(START + 0.1)
    assert time.advance(START + 100.1) - before == pytest.approx(100.0, abs=1e-6)
    assert time.advance(START) < before


def test_the_past_it_keeps_is_bounded():
    time = ProgramTime()
    time.factor = 0.5
    for i in range(20_000):
        time.advance(START + 0.05 * i)
    assert len(time._walls) < 2000
