# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""On a GPU a captured batch gives each request what it would get alone, in every precision; an
incomplete batch is filled up."""

import numpy as np
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden
from gr00t_case import load_e2e

from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation

pytestmark = [
    needs_golden,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
BOUND = {"float32": 5e-5, "bfloat16": 2e-2, "fp8": 8e-2}
"""Of the largest action. Products of one and of several requests sum in another order; half
precision rounds what that changes at every layer."""
BATCH = 4


def observations(spec):
    rng = np.random.default_rng(5)
    size = spec.image_size or (96, 96)
    words = ("go", "pick up the red block", "open the drawer and close it", "stop")
    return [
        Observation(
            {
                key: rng.integers(0, 255, (*spec.camera_sizes.get(key, size), 3), dtype=np.uint8)
                for key in spec.cameras
            },
            rng.normal(0, 0.3, spec.state_dim),
            word,
        )
        for word in words
    ]


def load(fixture, precision):
    if fixture == "groot_n17":
        return load_e2e("e2e0", device="cuda", dtype=precision)[0]
    return load_policy(GOLDEN / fixture, device="cuda", dtype=precision)


@pytest.mark.parametrize("fixture", ["pi05", "pi0", "groot_n17", "smolvla"])
@pytest.mark.parametrize("precision", BOUND)
def test_a_request_in_a_batch_as_alone(fixture, precision):
    if (fixture, precision) == ("smolvla", "fp8"):
        pytest.skip("SmolVLA has no FP8 form")
    policy = load(fixture, precision)
    seen = observations(policy.spec)
    noise = torch.randn(policy.adapter.noise_shape(BATCH), generator=torch.Generator())
    policy.runner.capture(seen[0], batches=(1, BATCH))
    together = policy.infer_batch(seen, noise)
    three = policy.infer_batch(seen[:3], noise[:3])
    assert policy.runner.replayed == 2
    alone = [policy.infer(o, n) for o, n in zip(seen, noise, strict=True)]
    largest = max(np.abs(chunk.normalised).max() for chunk in alone)
    for i in range(BATCH):
        away = np.abs(together[i].normalised - alone[i].normalised).max() / largest
        assert away <= BOUND[precision], f"request {i}: {away:.2e}"
    for i in range(3):
        away = np.abs(three[i].normalised - together[i].normalised).max() / largest
        assert away <= BOUND["float32"], f"request {i} of an incomplete batch: {away:.2e}"
    spread = np.ptp(np.stack([c.normalised for c in alone]), axis=0)
    assert spread.max() > 0.1 * largest  # the requests do differ


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=True)[:2])
def test_fp8_on_the_device_is_what_is_emulated(fixture, case):
    observation = pi_cases.observation(fixture, case)
    fast = load_policy(GOLDEN / fixture, device="cuda", dtype="fp8")
    emulated = load_policy(GOLDEN / fixture, device="cuda", dtype="fp8", selector="reference")
    noise = torch.randn(fast.adapter.noise_shape(1), generator=torch.Generator())
    assert fast.runner.capture(observation) > 0
    one, other = (p.infer(observation, noise).normalised for p in (fast, emulated))
    assert np.abs(one - other).max() / np.abs(other).max() < BOUND["fp8"]
