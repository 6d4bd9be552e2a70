# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A GR00T N1.7 made from its config alone: random weights, a loss with gradients, a checkpoint."""

import json

import numpy as np
import pytest
import torch
from golden import GOLDEN, needs_golden
from gr00t_case import CPU, FIXTURE, load_e2e

from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.model import GrootModel
from phyai_ros.engine.models.gr00t_n17.training import build, flow_loss, save
from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden


@pytest.fixture
def files():
    names = [p.name for p in (GOLDEN / FIXTURE).glob("*.json")]
    skip = ("cases.json", "model.safetensors.index.json")
    return {n: (GOLDEN / FIXTURE / n).read_text() for n in names if n not in skip}


def fresh(files, seed=0):
    config = json.loads(files["config.json"])
    architecture = json.loads(files["architecture.json"])
    return build(GrootConfig.parse(config, "config.json", architecture), CPU, seed=seed)


def batch():
    policy, observation, _ = load_e2e("e2e0")
    inputs = policy.adapter.prepare([observation] * 4)
    generator = torch.Generator().manual_seed(0)
    actions = torch.randn(policy.adapter.noise_shape(1), generator=generator).repeat(4, 1, 1)
    mask = torch.zeros_like(actions)
    mask[:, :6, :7] = 1
    return inputs, actions, mask


def test_every_weight_that_is_read_gets_a_gradient(files):
    model = fresh(files)
    with torch.no_grad():  # zero biases would hide what stands behind a relu or a product
        for p in model.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    inputs, actions, mask = batch()
    flow_loss(model, inputs, actions, mask, torch.Generator().manual_seed(0)).backward()
    silent = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert silent == {"backbone.model.model.language_model.norm.weight"}


def test_the_loss_falls(files):
    model = fresh(files)
    inputs, actions, mask = batch()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for step in range(60):
        loss = flow_loss(model, inputs, actions, mask, torch.Generator().manual_seed(9 + step))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])


@pytest.mark.parametrize("shard_bytes", [10**9, 500_000])
def test_saved_and_loaded_again(files, tmp_path, shard_bytes):
    model = fresh(files, seed=3)
    save(tmp_path / "saved", model, files, torch.float32, shard_bytes)
    assert ((tmp_path / "saved" / "model.safetensors").exists()) == (shard_bytes == 10**9)
    policy = load_policy(tmp_path / "saved", embodiment="libero_sim")
    assert policy.spec.family == "gr00t_n17"
    for (name, found), (_, expected) in zip(
        policy.adapter.model.named_parameters(), model.named_parameters(), strict=True
    ):
        assert torch.equal(found, expected), name


def test_the_published_dimensions_are_the_same_code():
    """3 B parameters, on paper: nothing is allocated."""
    with torch.device("meta"):
        model = GrootModel(GrootConfig.parse({}, "config.json"))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    last = "backbone.model.model.language_model.layers.15."
    assert shapes[last + "mlp.gate_proj.weight"] == (6144, 2048)
    assert shapes["action_head.model.transformer_blocks.31.norm1.linear.weight"] == (3072, 1536)
    assert shapes["action_head.action_encoder.W2.W"] == (32, 3072, 1536)
    assert 2.9e9 < sum(p.numel() for p in model.parameters()) < 3.3e9
