# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Solvers on fields whose answer is known, and what guidance does to them."""

import pytest
import torch

from phyai_ros.engine import solver
from phyai_ros.engine.types import PolicyError


def test_flows_reach_the_target_of_a_straight_field():
    target, noise = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    forward = solver.flow_forward(lambda x, i: target - noise, noise, 4)
    backward = solver.flow_backward(lambda x, i: noise - target, noise, 10)
    torch.testing.assert_close(forward, target, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(backward, target, atol=1e-5, rtol=1e-5)


def test_steps_are_given_in_order():
    seen = []
    solver.flow_forward(lambda x, i: seen.append(i) or x, torch.zeros(1, 2, 1), 5)
    assert seen == [0, 1, 2, 3, 4]


def test_single_pass_asks_once_and_cannot_be_guided():
    x = torch.randn(1, 4, 2)
    assert torch.equal(solver.single_pass(lambda x, i: 2 * x, x, 1), 2 * x)
    guide = solver.RtcIdentity(x, torch.ones_like(x))
    with pytest.raises(PolicyError, match="no denoising loop to guide"):
        solver.single_pass(lambda x, i: x, x, 1, guide)


@pytest.mark.parametrize("flow", [solver.flow_forward, solver.flow_backward])
def test_identity_guidance_replaces_whole_rows_and_leaves_the_rest(flow):
    """With its limit at the number of steps a row of weight 1 comes within the last step's
    residual of the left-over; a row of weight 0 is as without guidance."""
    torch.manual_seed(0)
    target, noise, leftover = (torch.randn(1, 6, 2) for _ in range(3))
    sign = 1 if flow is solver.flow_forward else -1
    weights = torch.zeros(1, 6, 1)
    weights[:, :3] = 1

    def predict(x, i):
        return sign * (target - noise)

    guided = flow(predict, noise, 10, solver.RtcIdentity(leftover, weights))
    plain = flow(predict, noise, 10)
    torch.testing.assert_close(guided[:, 3:], plain[:, 3:])
    before = (plain[:, :3] - leftover[:, :3]).abs().max()
    assert (guided[:, :3] - leftover[:, :3]).abs().max() < 0.15 * before


def test_weight_by_step():
    """Unclipped w at ten steps, as published."""
    expected = [10, 9.11, 4.25, 2.76, 2.17, 2.0, 2.17, 2.76, 4.25, 9.11]
    found = [solver.rtc_weight(i / 10, 10.0) for i in range(10)]
    assert found == pytest.approx(expected, abs=5e-3)


def test_overlap_freezes_and_ramps():
    target, noise = torch.zeros(1, 6, 1), torch.ones(1, 6, 1)
    guide = solver.RtcOverlap(target, [4], [2], 6.0)
    x = solver.flow_forward(lambda x, i: torch.ones_like(x), noise, 4, guide)[0, :, 0]
    assert x[:2].tolist() == [0, 0]
    assert 0 < x[2] < x[3] < 1
    torch.testing.assert_close(x[4:], torch.tensor([2.0, 2.0]))


def test_resolve():
    assert solver.resolve("flow_forward") is solver.flow_forward
    assert solver.resolve(solver.single_pass) is solver.single_pass
    with pytest.raises(PolicyError, match="unknown solver 'heun'; known: flow_forward"):
        solver.resolve("heun")
