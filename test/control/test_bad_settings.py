# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Settings that cannot be are refused by name where they are given, not found out by the arm."""

import numpy as np
import pytest
from handoff_rig import limits

from phyai_ros.control import metrics
from phyai_ros.control.buffer import ChunkBuffer
from phyai_ros.control.clock import TickAxis
from phyai_ros.control.delay import DelayEstimator
from phyai_ros.control.guard import Guard
from phyai_ros.control.methods import Replace
from phyai_ros.control.stall import Closing, StallDetector
from phyai_ros.control.workspace import Workspace

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TickAxis(0.0), "tick period: expected seconds > 0, found 0.0"),
        (lambda: TickAxis(NAN), "tick period: expected seconds > 0, found nan"),
        (lambda: TickAxis(INF), "tick period: expected seconds > 0, found inf"),
        (lambda: TickAxis(0.05, jump=0.05), "clock jump: expected more than a tick"),
        (lambda: TickAxis(0.05).advance(NAN), "now: expected a finite time, found nan"),
        (lambda: DelayEstimator(window=0), "expected window >= 1"),
        (lambda: DelayEstimator(warm_up=-1), "warm_up >= 0"),
        (lambda: Guard(limits(), 0.0), "control period: expected seconds > 0"),
        (lambda: Closing(0.1, 0.1), "closed and threshold: expected two different positions"),
        (lambda: StallDetector(("a",), {"g": Closing(0.0, 0.1)}, 5), r"grippers \['g'\]"),
        (lambda: StallDetector(("a",), {}, 0), "expected ticks >= 1"),
        (lambda: StallDetector(("a",), {}, 5, change=0.0), "change > 0"),
        (lambda: Workspace(lambda p: p, (0, 0), (1, 1)), "two corners of 3 numbers"),
        (lambda: Workspace(lambda p: p, (0, 0, 1), (1, 1, 1)), "expected lower < upper"),
        (lambda: ChunkBuffer(("a",), Replace(), ("g",)), r"discrete joints \['g'\]: expected some"),
    ],
)
def test_it_is_refused_with_what_was_expected_and_found(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_an_estimate_of_nothing_is_none_and_no_guess():
    estimate = DelayEstimator()
    assert estimate.maximum is None
    assert estimate.quantile(0.5) is None
    assert not estimate.ready
    for ticks in (99, 3, 5):
        estimate.add(ticks)
    assert estimate.quantile(0.5) == 4.0


def test_a_buffer_without_a_plan_has_no_tick_to_switch_at():
    with pytest.raises(RuntimeError, match="no plan"):
        ChunkBuffer(("a",), Replace(), ()).switch_tick(8)


@pytest.mark.parametrize("closed", [0.0, 1.0])
def test_a_gripper_closes_towards_either_end(closed):
    closing = Closing(closed, abs(closed - 0.25))
    assert closing.holds(closed)
    assert not closing.holds(1.0 - closed)


def test_a_workspace_names_the_sides_that_the_tool_is_outside_of():
    box = Workspace(lambda p: p, (0.0, 0.0, 0.0), (1.0, 1.0, INF))
    assert box.sides(np.array([-0.1, 0.5, 99.0])) == ["x"]
    assert box.sides(np.array([0.5, 2.0, -1.0])) == ["y", "z"]
    np.testing.assert_allclose(box.excess(np.array([0.5, 2.5, -1.0])), [0.0, 1.5, 1.0])


def test_numbers_of_no_commands_are_none_not_zero():
    assert np.isnan(metrics.percentiles([]).p50)
    assert np.isnan(metrics.percentiles([NAN]).p99)
