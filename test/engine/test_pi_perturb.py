# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The golden test is not vacuous: a small change to a weight of any kind makes it fail."""

import re

import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors

from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden
SHARED = (
    "image.patch.weight",
    "image.patch.bias",
    "image.position",
    "image.layers.0.qkv.weight",
    "image.layers.1.output.weight",
    "image.layers.1.output.bias",
    "image.layers.0.norm1.weight",
    "image.layers.1.norm2.bias",
    "image.layers.0.up.weight",
    "image.layers.1.down.bias",
    "image.norm.weight",
    "image.norm.bias",
    "projector.weight",
    "projector.bias",
    "language.embed.weight",
    "language.layers.0.norm1.weight",
    "language.layers.1.norm2.weight",
    "language.layers.2.norm1.weight",
    "language.layers.0.attention.qkv.weight",
    "language.layers.1.attention.output.weight",
    "language.layers.0.mlp.gate_up.weight",
    "language.layers.1.mlp.down.weight",
    "expert.layers.0.attention.qkv.weight",
    "expert.layers.2.attention.output.weight",
    "expert.layers.0.mlp.gate_up.weight",
    "expert.layers.2.mlp.down.weight",
    "action_in.weight",
    "action_in.bias",
    "action_out.weight",
    "action_out.bias",
    "time_in.weight",
    "time_in.bias",
    "time_out.weight",
    "time_out.bias",
)
OWN = {
    "pi0": (
        "state_in.weight",
        "state_in.bias",
        "expert.layers.0.norm1.weight",
        "expert.layers.2.norm2.weight",
        "expert.norm.weight",
    ),
    "pi05": (
        "expert.layers.0.norm1.dense.weight",
        "expert.layers.2.norm2.dense.bias",
        "expert.norm.dense.weight",
        "expert.norm.dense.bias",
    ),
}
# The last layer's work after its keys and values, and the norm behind it, reach no output.
UNREAD = re.compile(r"language\.(norm\.weight|layers\.2\.(norm2|mlp|attention\.output).*)")


@pytest.fixture(scope="module")
def models():
    return {fixture: load_policy(GOLDEN / fixture).adapter.model for fixture in OWN}


def error(model, fixture):
    first, _ = pi_cases.run(model, fixture, "case0")
    return relative_error(first, tensors(fixture, "case0")["velocity_first"])


@pytest.mark.parametrize(
    ("fixture", "name"), [(f, n) for f, own in OWN.items() for n in (*SHARED, *own)]
)
def test_perturbed_weight_breaks_the_check(models, fixture, name):
    model = models[fixture]
    parameter = dict(model.named_parameters())[name]
    kept = parameter.detach().clone()
    assert error(model, fixture) < 1e-5
    with torch.no_grad():
        parameter.add_(0.01 * torch.randn(kept.shape, generator=torch.Generator().manual_seed(0)))
    try:
        assert error(model, fixture) > 1e-5
    finally:
        with torch.no_grad():
            parameter.copy_(kept)


@pytest.mark.parametrize("fixture", OWN)
def test_every_kind_of_weight_is_in_the_list(models, fixture):
    def kind(name):
        return re.sub(r"layers\.\d+\.", "layers.", name).rpartition(".")[0]

    tried = {kind(name) for name in (*SHARED, *OWN[fixture])}
    names = [n for n, _ in models[fixture].named_parameters() if not UNREAD.fullmatch(n)]
    assert {kind(name) for name in names} - tried == set()
