# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The same fixtures on a CUDA device, in float32 and bfloat16."""

import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors

from phyai_ros.engine.policy import load_policy

pytestmark = [
    needs_golden,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def run(fixture, case, dtype):
    model = load_policy(GOLDEN / fixture, device="cuda", dtype=dtype).adapter.model
    arrays = tensors(fixture, case)
    batch = pi_cases.inputs(arrays, model.config.state_width)
    batch = type(batch)(**{k: v.cuda() for k, v in vars(batch).items()})
    steps = pi_cases.meta(fixture, case)["num_steps"]
    _, trace = pi_cases.sample(model, batch, arrays["noise"].cuda(), steps)
    return trace[:, -1].cpu(), arrays


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=False))
def test_float32(fixture, case):
    actions, arrays = run(fixture, case, "float32")
    assert relative_error(actions, arrays["actions"]) < 1e-5


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(False, pi_cases.LEROBOT))
def test_bfloat16(fixture, case):
    actions, arrays = run(fixture, case, "bfloat16")
    own = (arrays["actions_bf16"] - arrays["actions"]).abs().max()
    assert (actions - arrays["actions"]).abs().max() <= 1.25 * own


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=True))
def test_end_to_end(fixture, case):
    policy = load_policy(GOLDEN / fixture, device="cuda")
    arrays = tensors(fixture, case)
    chunk = policy.infer(pi_cases.observation(fixture, case), noise=arrays["e2e.noise"])
    expected = arrays["e2e.action_chunk"].reshape(chunk.actions.shape)
    assert relative_error(torch.from_numpy(chunk.actions), expected) < 1e-5
