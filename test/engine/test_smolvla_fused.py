# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA's fused form, with the operators' plain torch twins: against LeRobot's results, and for
the other ways in which expert and backbone can be joined against the reference path."""

import dataclasses

import pytest
import torch
from golden import needs_golden, relative_error
from test_smolvla import CASES, case, inputs_of, policy, steps_of

from phyai_ros.engine.kernels import flow_step
from phyai_ros.engine.kernels.flow_step import Step
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.smolvla.model import SmolVlaInputs, SmolVlaModel
from phyai_ros.engine.solver import RtcIdentity, flow_backward


@torch.inference_mode()
def answer(model, inputs, noise, steps):
    constants, prefix = model.constants(steps), model.prefix(inputs, model.vision(inputs))
    return flow_backward(lambda x, i: model.predict(x, i, prefix, constants), noise, steps)


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_against_the_fixtures(name):
    fused = policy().adapter.model.fused(Operators())
    found = answer(fused, inputs_of(case(name)), case(name)["noise"], steps_of(name))
    assert relative_error(found, case(name)["actions"]) < 1e-5


@needs_golden
def test_nobody_reads_room_that_is_not_written_yet(monkeypatch):
    model, data, steps = policy().adapter.model, case(CASES[0]), steps_of(CASES[0])
    given = inputs_of(data), data["noise"], steps
    expected = answer(model.fused(Operators()), *given)
    plain = torch.Tensor.new_empty

    def poisoned(self, *sizes, **options):
        return plain(self, *sizes, **options).fill_(torch.nan)

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned)
    assert torch.equal(answer(model.fused(Operators()), *given), expected)


@needs_golden
@torch.inference_mode()
def test_a_step_that_the_last_pass_takes_along():
    fused, data = policy().adapter.model.fused(Operators()), case(CASES[0])
    inputs, constants = inputs_of(data), fused.constants(10)
    prefix, x = fused.prefix(inputs, fused.vision(inputs)), data["noise"]
    guide = RtcIdentity(torch.randn_like(x), torch.rand_like(x[..., :1]))
    for step in range(3):
        numbers = Step(-1.0, 0.7, 1.9, 10)
        v = fused.predict(x, step, prefix, constants)
        expected = flow_step.reference(x, v, guide.target, guide.weights, **numbers._asdict())
        x = fused.advance(x, step, prefix, constants, guide, numbers)
        assert torch.equal(x, expected)


@needs_golden
@pytest.mark.parametrize(
    "changes",
    [
        {"image_marks": (3, 5)},
        {"attention_mode": "self_attn"},
        {"self_attn_every_n_layers": 0},
        {"num_expert_layers": 2, "self_attn_every_n_layers": 2},
        {"expert_hidden_size": 72, "expert_intermediate_size": 80},
    ],
)
def test_other_ways_to_join(changes):
    config = dataclasses.replace(policy().adapter.model.config, num_vlm_layers=4, **changes)
    torch.manual_seed(0)
    model = SmolVlaModel(config).eval()
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=p[0].numel() ** -0.5)
    side, batch = config.vlm.vision.image_size, 2
    inputs = SmolVlaInputs(
        tuple(torch.rand(batch, 3, side, side) * 2 - 1 for _ in range(2)),
        (torch.tensor([True, True]), torch.tensor([True, False])),
        torch.randint(0, 50, (batch, 6)),
        torch.arange(6)[None] < torch.tensor([[6], [4]]),
        torch.randn(batch, config.max_state_dim),
        (torch.tensor([True, True]), torch.tensor([True, True])),
    )
    noise = torch.randn(batch, config.chunk_size, config.max_action_dim)
    expected = answer(model, inputs, noise, 4)
    assert relative_error(answer(model.fused(Operators()), inputs, noise, 4), expected) < 1e-5
