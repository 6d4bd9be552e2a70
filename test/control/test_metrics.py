# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Metrics against values worked out by hand."""

import math

import numpy as np
import pytest

from phyai_ros.control import metrics


def test_a_step_at_a_chunk_boundary_is_all_boundary():
    commands = np.concatenate([np.zeros((5, 2)), np.tile([3.0, 4.0], (5, 1))])
    assert metrics.chunk_discontinuity(commands, [5]) == 5.0
    result = metrics.jerk(commands, [5])
    # Second differences: 5 at tick 4 (before the boundary) and 5 at tick 5; six others are 0.
    assert result.boundary == 5.0
    assert result.interior == pytest.approx(5.0 / 7)
    assert result.ratio == pytest.approx(7.0)
    assert result.boundary_variance == 0.0


def test_constant_velocity_has_no_jerk_and_a_discontinuity_of_one_step():
    commands = np.arange(20.0)[:, None] * 0.1
    assert metrics.jerk(commands, [8, 16]).boundary == pytest.approx(0.0, abs=1e-12)
    assert metrics.chunk_discontinuity(commands, [8, 16]) == pytest.approx(0.1)


def test_true_jerk_is_the_third_derivative():
    t = np.arange(0, 1, 0.01)
    commands = (t**3)[:, None]
    np.testing.assert_allclose(metrics.true_jerk(commands, 0.01), 6.0, rtol=1e-6)


def test_no_boundary_is_nan_and_a_wrong_one_is_refused():
    commands = np.zeros((10, 1))
    assert math.isnan(metrics.chunk_discontinuity(commands, []))
    assert math.isnan(metrics.jerk(commands, []).boundary)
    with pytest.raises(ValueError, match="0 <= b < 10"):
        metrics.jerk(commands, [10])


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    # Wilson 95 %: Brown, Cai, DasGupta 2001 conventions; 0/10 is z^2/(n + z^2).
    [(0, 10, 0.0, 0.27753), (5, 10, 0.23659, 0.76341), (49, 50, 0.89505, 0.99646)],
)
def test_wilson(k, n, low, high):
    assert metrics.wilson(k, n) == pytest.approx((low, high), abs=1e-5)


def test_wilson_without_trials_says_nothing():
    assert metrics.wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="3 of 2"):
        metrics.wilson(3, 2)


def test_percentiles_leave_nan_out():
    result = metrics.percentiles([*range(101), math.nan])
    assert (result.count, result.p50, result.p99, result.max) == (101, 50.0, 99.0, 100.0)


def test_action_age_of_first_and_last_row():
    result = metrics.action_age([0.2, 0.3, 0.4, 0.1, 0.2], [1, 1, 1, 2, 2])
    assert result.first == pytest.approx(0.15)
    assert result.last == pytest.approx(0.3)
