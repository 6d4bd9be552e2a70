# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Seam guidance against its formula written out, on its own and through a policy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden import GOLDEN, needs_golden
from test_pi_batch import noise, observations
from test_rtc_methods import toy, wish

from phyai_ros.engine import solver
from phyai_ros.engine.guidance import guide
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Guidance, PolicyError


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("steps", [10, 5])
def test_each_euler_step_is_followed_by_the_pull(forward, steps):
    predict, x, target, _ = toy()
    weights = (torch.arange(4) < 2)[None, :, None].to(x.dtype)
    strength = 0.1  # the paper's, of ten steps; one of five is as long as two of them
    expected = x
    for i in range(steps):
        expected = expected + predict(expected, i) / steps
        tau = (i + 1) / steps  # the paper's 1 - t
        seen = expected
        for _ in range(10 // steps):
            seen = seen + 2 * strength * tau * (tau * target - seen)
        expected = expected + (seen - expected) * weights
    solve = solver.flow_forward if forward else solver.flow_backward
    signed = predict if forward else lambda z, i: -predict(z, i)
    found = solve(signed, x, steps, solver.Seam(target, weights, strength))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    plain = solve(signed, x, steps)
    assert (found - plain)[0, 0].abs().max() > 1e-3


@needs_golden
@pytest.mark.parametrize("left", [2, 3, 6])
def test_the_pull_falls_off_to_the_end_of_the_left_over(left):
    adapter = load_policy(GOLDEN / "pi05").adapter
    horizon = adapter.spec.horizon
    full = round(0.4 * horizon)
    (seen,) = observations(load_policy(GOLDEN / "pi05"), 1)
    rows = np.zeros((left, adapter.spec.action_dim))
    made = guide([Guidance(rows, 1, "seam", 3)], [seen], adapter, torch.device("cpu"))
    weights = made.weights[0, :, 0].tolist()
    assert weights[: min(full, left)] == [1.0] * min(full, left)
    assert weights[left:] == [0.0] * (horizon - left)
    steps = np.diff(weights[min(full, left) - 1 : left + 1])
    np.testing.assert_allclose(steps, steps[0], atol=1e-6)


@needs_golden
@pytest.mark.parametrize("method", ["seam", "rtc_identity"])
def test_columns_that_are_left_out_are_left_alone(method):
    policy = load_policy(GOLDEN / "pi05")
    (seen,) = observations(policy, 1)
    x = noise(policy, 1)
    guidance = wish(policy, seen, method)
    plain = policy.infer(seen, x).normalised
    none = np.zeros(policy.spec.action_dim, bool)
    nothing = policy.infer(seen, x, replace_columns(guidance, none)).normalised
    np.testing.assert_allclose(nothing, plain, atol=1e-6)
    every = policy.infer(seen, x, replace_columns(guidance, ~none)).normalised
    np.testing.assert_array_equal(every, policy.infer(seen, x, guidance).normalised)
    assert np.abs(every - plain).max() > 1e-3


@needs_golden
def test_seam_pulls_the_leading_rows_towards_the_left_over():
    policy = load_policy(GOLDEN / "pi05")
    (seen,) = observations(policy, 1)
    x = noise(policy, 1)
    guidance = wish(policy, seen, "seam")
    target = policy.adapter.encode(guidance.leftover, seen)[:4, : policy.spec.action_dim]

    def distance(chunk):
        return np.abs(chunk.normalised[:4, : policy.spec.action_dim] - target).mean()

    assert distance(policy.infer(seen, x, guidance)) < 0.9 * distance(policy.infer(seen, x))


@needs_golden
def test_columns_of_another_length_are_refused():
    policy = load_policy(GOLDEN / "pi05")
    (seen,) = observations(policy, 1)
    with pytest.raises(PolicyError, match=r"guidance.columns: expected \d+ values, found"):
        policy.infer(seen, guidance=replace_columns(wish(policy, seen, "seam"), np.ones(2, bool)))


def replace_columns(guidance, columns):
    return replace(guidance, columns=columns)
