# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""bfloat16: no further from the float32 reference than the reference's own bfloat16 is."""

import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, tensors

from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden
CASES = pi_cases.names(end_to_end=False, fixtures=pi_cases.LEROBOT)


@pytest.fixture(scope="module")
def models():
    return {f: load_policy(GOLDEN / f, dtype="bfloat16").adapter.model for f in pi_cases.LEROBOT}


@pytest.mark.parametrize(("fixture", "case"), CASES)
def test_error_against_the_references_own(models, fixture, case):
    arrays = tensors(fixture, case)
    velocity, actions = pi_cases.run(models[fixture], fixture, case)
    for found, name in ((velocity, "velocity_first"), (actions, "actions")):
        own = (arrays[f"{name}_bf16"] - arrays[name]).abs().max()
        assert 0 < (found - arrays[name]).abs().max() <= 1.25 * own, name


@pytest.mark.parametrize("fixture", pi_cases.LEROBOT)
def test_products_are_kept_in_half_precision(models, fixture):
    for name, parameter in models[fixture].named_parameters():
        if "norm" in name or name == "image.position":
            assert parameter.dtype == torch.float32, name
        elif name.startswith("language."):
            assert parameter.dtype == torch.bfloat16, name
        elif name.startswith(("image.", "projector.", "expert.")):
            assert parameter.dtype == torch.float16, name
        else:
            assert parameter.dtype == torch.float32, name
