# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The published dimensions: parameter counts and shapes, without memory for them."""

import pytest
import torch

from phyai_ros.engine.models.paligemma.config import GEMMA_VARIANTS, FlowConfig, SiglipConfig
from phyai_ros.engine.models.paligemma.flow import Inputs
from phyai_ros.engine.models.pi0.adapter import FAMILY as PI0
from phyai_ros.engine.models.pi05.adapter import FAMILY as PI05

FULL = FlowConfig(SiglipConfig(), GEMMA_VARIANTS["gemma_2b"], GEMMA_VARIANTS["gemma_300m"])
BILLIONS = {"pi0": 3.238, "pi05": 3.354}
# Shapes of the public checkpoints, from openpi's own configuration.
SHAPES = {
    "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight": (257152, 2048),
    "paligemma_with_expert.paligemma.model.language_model.layers.17.self_attn.q_proj.weight": (
        2048,
        2048,
    ),
    "paligemma_with_expert.paligemma.model.language_model.layers.0.self_attn.k_proj.weight": (
        256,
        2048,
    ),
    "paligemma_with_expert.paligemma.model.language_model.layers.0.mlp.gate_proj.weight": (
        16384,
        2048,
    ),
    "paligemma_with_expert.gemma_expert.model.layers.17.self_attn.o_proj.weight": (1024, 2048),
    "paligemma_with_expert.gemma_expert.model.layers.0.mlp.down_proj.weight": (1024, 4096),
    "paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings."
    "patch_embedding.weight": (1152, 3, 14, 14),
    "paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings."
    "position_embedding.weight": (256, 1152),
    "paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers.26.mlp."
    "fc1.weight": (4304, 1152),
    "paligemma_with_expert.paligemma.model.multi_modal_projector.linear.weight": (2048, 1152),
    "action_in_proj.weight": (1024, 32),
    "action_out_proj.weight": (32, 1024),
}
OWN = {
    "pi0": {
        "state_proj.weight": (1024, 32),
        "action_time_mlp_in.weight": (1024, 2048),
        "paligemma_with_expert.gemma_expert.model.norm.weight": (1024,),
    },
    "pi05": {
        "time_mlp_in.weight": (1024, 1024),
        "paligemma_with_expert.gemma_expert.model.norm.dense.weight": (3072, 1024),
        "paligemma_with_expert.gemma_expert.model.layers.3.input_layernorm.dense.bias": (3072,),
    },
}


@pytest.fixture(params=[PI0, PI05], ids=lambda f: f.name)
def family(request):
    return request.param


def build(family):
    with torch.device("meta"):
        return family.model(FULL)


def test_parameters(family):
    model = build(family)
    count = sum(p.numel() for p in model.parameters())
    assert count / 1e9 == pytest.approx(BILLIONS[family.name], abs=0.0006)


def test_checkpoint_shapes(family):
    """Every key of the published layout fills its rows, and together they fill everything."""
    model, table = build(family), family.table(FULL)
    parameters = dict(model.named_parameters())
    shapes = {}
    filled = dict.fromkeys(parameters, 0)
    for key, rows in table.items():
        whole = tuple(parameters[rows.name].shape)
        shapes[key] = whole if rows.size is None else (rows.size, *whole[1:])
        filled[rows.name] += shapes[key][0]
    assert filled == {name: p.shape[0] for name, p in parameters.items()}
    for key, shape in {**SHAPES, **OWN[family.name]}.items():
        assert shapes[key] == shape, key


@torch.no_grad()
def test_shapes_of_a_request(family):
    model = build(family)
    with torch.device("meta"):
        batch = Inputs(
            torch.empty(2, 3, 3, 224, 224),
            torch.ones(2, 3, dtype=torch.bool),
            torch.zeros(2, 48, dtype=torch.int64),
            torch.ones(2, 48, dtype=torch.bool),
            torch.zeros(2, 32),
        )
        features = model.vision(batch)
        prefix = model.prefix(batch, features)
        velocity = model.predict(torch.empty(2, 50, 32), 9, prefix, model.constants(10))
    tokens = 3 * 256 + 48 + (family.name == "pi0")
    assert features.shape == (2, 3, 256, 2048)
    assert len(prefix.layers) == 18
    assert prefix.layers[0].key.shape == (2, 1, tokens, 256)
    assert prefix.mask.shape == (2, 1, 1, tokens + 50)
    assert velocity.shape == (2, 50, 32)
