# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The fused forms of the models, with the operators' plain torch twins, against the fixtures: what
the kernels are then checked against is the same function."""

import pi_cases
import pytest
import torch
from golden import needs_golden, relative_error, tensors
from gr00t_case import CPU, FIXTURE, case_info, inputs_of, load_model, sample

from phyai_ros.engine.kernels import rope_cache
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.select import select
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.runner import Runner
from phyai_ros.engine.types import PolicyError

pytestmark = needs_golden


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=False))
def test_pi(fixture, case):
    model = load_policy(pi_cases.GOLDEN / fixture).adapter.model
    arrays = tensors(fixture, case)
    batch = pi_cases.inputs(arrays, model.config.state_width)
    steps = pi_cases.meta(fixture, case)["num_steps"]
    _, trace = pi_cases.sample(model.fused(Operators()), batch, arrays["noise"], steps)
    assert relative_error(trace[:, -1], arrays["actions"]) < 1e-5


@pytest.mark.parametrize("case", ["case0", "case1", "case2", "case3"])
def test_gr00t(case):
    model, arrays = load_model(), tensors(FIXTURE, case)
    inputs, steps = inputs_of(model, arrays), case_info(case)["num_steps"]
    actions = sample(model.fused(Operators()), inputs, arrays["noise"], steps)
    assert relative_error(actions, arrays["actions"]) < 1e-5


def test_queries_alone_may_be_more_than_the_cache_has_room_for():
    """SmolVLA's chunk behind a prefix that is shorter than it."""
    y, cache = torch.randn(6, 2 * 8), torch.zeros(1, 0, 4, 8)
    angles = torch.rand(1, 6, 8)
    q = rope_cache.reference(y, angles.cos(), angles.sin(), cache, cache, heads=2)
    room = torch.zeros(1, 0, 6, 8)
    expected = rope_cache.reference(y, angles.cos(), angles.sin(), room, room, heads=2)
    assert q.shape == (1, 6, 2, 8)
    torch.testing.assert_close(q, expected, rtol=0, atol=0)


def test_the_selector_takes_the_twins_where_the_kernels_cannot_run():
    assert type(select(CPU, torch.float32)) is Operators
    assert type(select(CPU, torch.bfloat16, "reference")) is Operators
    policy = load_policy(pi_cases.GOLDEN / "pi05", dtype="bfloat16")
    assert policy.runner.model is policy.adapter.model
    with pytest.raises(PolicyError, match="auto, reference"):
        Runner(policy.adapter, CPU, "fastest")
