# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7 on a GPU: the same fixtures, the same promises."""

import numpy as np
import pytest
import torch
from golden import needs_golden, relative_error
from gr00t_case import E2E_CASES, MODEL_CASES, load_e2e, load_model, observations, run_case

pytestmark = [
    needs_golden,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("name", MODEL_CASES)
def test_float32(name):
    run = run_case(load_model(device=CUDA), name)
    assert relative_error(run.found["actions"], run.expected["actions"]) < 1e-5
    assert relative_error(run.found["vl_embeds"], run.expected["vl_embeds"]) < 1e-5


@pytest.mark.parametrize("name", MODEL_CASES)
def test_bfloat16(name):
    run = run_case(load_model(torch.bfloat16, CUDA), name)
    error = (run.found["actions"] - run.expected["actions"]).abs().max().item()
    assert error <= 1.25 * run.info["bf16_vs_fp32_max_abs"]["bf16"]


@pytest.mark.parametrize("name", E2E_CASES)
def test_end_to_end(name):
    """Images are resized on the device: equal, or within 1/255 where a second resize is torch's."""
    policy, observation, expected = load_e2e(name, device="cuda")
    patches = policy.adapter.prepare([observation]).patches.cpu()
    assert (patches - expected["pixel_values"]).abs().max().item() <= 1.01 / 127.5
    chunk = policy.infer(observation, expected["noise"])
    scale = expected["action"].abs().max().item()
    np.testing.assert_allclose(chunk.actions, expected["action"][0], atol=1e-3 * scale)
    assert set(chunk.stages) == {"preprocess", "vision", "prefix", "solver", "convert"}
    assert all(seconds >= 0 for seconds in chunk.stages.values())


@pytest.mark.parametrize("size", [8, 32])
def test_a_request_does_not_depend_on_its_batch(size):
    policy, _, _ = load_e2e("e2e0", device="cuda")
    requests = observations(size)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(policy.adapter.noise_shape(size), generator=generator)
    together = policy.infer_batch(requests, noise)
    for i, request in enumerate(requests):
        alone = policy.infer(request, noise[i])
        np.testing.assert_allclose(together[i].normalised, alone.normalised, atol=5e-5)
