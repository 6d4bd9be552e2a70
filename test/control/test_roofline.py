# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Control-time Roofline against known results and by hand."""

import math

import pytest

from phyai_ros.control.roofline import Workload, curve, evaluate


def test_fast_policy_with_a_ten_action_chunk_at_20_hz_is_environment_bound():
    """Known: 36 ms of inference against ten actions at 20 Hz; the robot sets the pace."""
    result = evaluate(Workload("small", 0.036, horizon=10, execution_horizon=10, control_rate=20))
    assert result.bound == "environment"
    assert result.execution == pytest.approx(0.5)
    assert result.sequential == pytest.approx(0.536)
    assert result.overlapped == pytest.approx(0.5)
    assert result.slack == pytest.approx(0.464)
    assert result.boundary == 1


def test_slow_policy_executed_8_of_32_at_15_hz_stays_inference_bound():
    """Known: 1.18 s of inference, 32 actions at 15 Hz, executed 8 at a time: 0.533 s of motion."""
    workload = Workload("world model", 1.18, horizon=32, execution_horizon=8, control_rate=15)
    result = evaluate(workload)
    assert result.bound == "inference"
    assert result.overlapped == pytest.approx(1.18)
    assert result.slack == pytest.approx(8 / 15 - 1.18)
    assert result.boundary == 18
    assert not result.real_time
    assert evaluate(workload.scaled(execution_horizon=18)).bound == "environment"
    assert evaluate(workload.scaled(execution_horizon=17)).bound == "inference"


def test_transport_counts_as_thinking_and_a_slow_environment_as_acting():
    result = evaluate(
        Workload("w", 0.1, 16, 8, 20, inference_p99=0.3, transport=0.02, environment=0.1)
    )
    assert result.execution == pytest.approx(0.8)
    assert result.think == pytest.approx(0.12)
    assert result.slack_p99 == pytest.approx(0.48)
    assert result.rate_overlapped == pytest.approx(10.0)
    assert result.delay == 2


def test_exactly_at_the_boundary_it_is_the_environment():
    result = evaluate(Workload("w", 0.4, 16, 8, 20))
    assert result.bound == "environment"
    assert result.slack == pytest.approx(0.0, abs=1e-12)
    assert result.boundary == 8
    assert result.real_time


def test_what_if():
    base = Workload("w", 1.0, 16, 8, 20, inference_p99=1.2)
    faster = base.scaled(inference=0.25, rate=0.5)
    assert faster.inference == 0.25
    assert faster.inference_p99 == pytest.approx(0.3)
    assert faster.control_rate == 10
    assert evaluate(faster).bound == "environment"


def test_curve_crosses_once():
    bounds = [r.bound for r in curve(Workload("w", 0.33, 16, 8, 20))]
    assert bounds == ["inference"] * 6 + ["environment"] * 10
    assert math.isnan(curve(Workload("w", 0.33, 16, 8, 20))[0].slack_p99)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"inference": -1.0}, "w: inference: expected seconds >= 0"),
        ({"control_rate": 0.0}, "control_rate: expected Hz > 0"),
        ({"execution_horizon": 17}, "expected 1 to 16, found 17"),
        ({"transport": math.nan}, "transport"),
    ],
)
def test_bad_numbers_are_named(change, text):
    values = {"inference": 0.1, "horizon": 16, "execution_horizon": 8, "control_rate": 20.0}
    with pytest.raises(ValueError, match=text):
        Workload("w", **{**values, **change})
