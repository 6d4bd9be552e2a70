# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7 against the reference's every intermediate, in float32 and bfloat16."""

import re

import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error
from gr00t_case import MODEL_CASES, load_model, run_case
from perturbation import kinds

pytestmark = needs_golden
TOLERANCE = 1e-5
NOT_COMPARED = {  # inputs, and the reference's own bfloat16 runs
    *("input_ids", "attention_mask", "pixel_values", "image_grid_thw", "state", "embodiment_id"),
    *("noise", "rtc_action", "actions_bf16", "actions_bf16_autocast"),
}


@pytest.fixture(scope="module")
def model():
    return load_model()


@pytest.mark.parametrize("name", MODEL_CASES)
def test_every_intermediate(model, name):
    run = run_case(model, name)
    assert set(run.expected) - NOT_COMPARED <= set(run.found)  # nothing passes unread
    errors = {}
    for key, expected in run.expected.items():
        if key in NOT_COMPARED:
            continue
        if expected.dtype == torch.float32:
            errors[key] = relative_error(run.found[key], expected)
        else:
            assert torch.equal(run.found[key], expected), key
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("name", MODEL_CASES)
def test_bfloat16_is_no_worse_than_the_reference(name):
    run = run_case(load_model(torch.bfloat16), name)
    error = (run.found["actions"] - run.expected["actions"]).abs().max().item()
    reference = run.info["bf16_vs_fp32_max_abs"]["bf16"]
    assert error <= 1.25 * reference


# One weight of every kind; moving it must move the actions by more than the tolerance.
KINDS = (
    "backbone.model.model.visual.patch_embed.proj.weight",
    "backbone.model.model.visual.patch_embed.proj.bias",
    "backbone.model.model.visual.pos_embed.weight",
    "backbone.model.model.visual.blocks.1.norm1.weight",
    "backbone.model.model.visual.blocks.1.norm2.bias",
    "backbone.model.model.visual.blocks.1.attn.qkv.weight",
    "backbone.model.model.visual.blocks.1.attn.qkv.bias",
    "backbone.model.model.visual.blocks.1.attn.proj.weight",
    "backbone.model.model.visual.blocks.1.mlp.linear_fc1.weight",
    "backbone.model.model.visual.blocks.1.mlp.linear_fc2.bias",
    "backbone.model.model.visual.merger.norm.weight",
    "backbone.model.model.visual.merger.linear_fc1.weight",
    "backbone.model.model.visual.merger.linear_fc2.weight",
    "backbone.model.model.visual.deepstack_merger_list.0.norm.weight",
    "backbone.model.model.visual.deepstack_merger_list.1.linear_fc1.weight",
    "backbone.model.model.visual.deepstack_merger_list.2.linear_fc2.weight",
    "backbone.model.model.language_model.embed_tokens.weight",
    "backbone.model.model.language_model.layers.3.input_layernorm.weight",
    "backbone.model.model.language_model.layers.3.post_attention_layernorm.weight",
    "backbone.model.model.language_model.layers.3.self_attn.q_proj.weight",
    "backbone.model.model.language_model.layers.3.self_attn.k_proj.weight",
    "backbone.model.model.language_model.layers.3.self_attn.v_proj.weight",
    "backbone.model.model.language_model.layers.3.self_attn.o_proj.weight",
    "backbone.model.model.language_model.layers.3.self_attn.q_norm.weight",
    "backbone.model.model.language_model.layers.3.self_attn.k_norm.weight",
    "backbone.model.model.language_model.layers.3.mlp.gate_proj.weight",
    "backbone.model.model.language_model.layers.3.mlp.up_proj.weight",
    "backbone.model.model.language_model.layers.3.mlp.down_proj.weight",
    "action_head.vlln.weight",
    "action_head.vlln.bias",
    "action_head.vl_self_attention.transformer_blocks.0.norm1.weight",
    "action_head.vl_self_attention.transformer_blocks.0.attn1.to_k.weight",
    "action_head.vl_self_attention.transformer_blocks.1.attn1.to_out.0.bias",
    "action_head.vl_self_attention.transformer_blocks.1.norm3.bias",
    "action_head.vl_self_attention.transformer_blocks.1.ff.net.0.proj.weight",
    "action_head.vl_self_attention.transformer_blocks.1.ff.net.2.weight",
    "action_head.state_encoder.layer1.W",
    "action_head.state_encoder.layer2.b",
    "action_head.action_encoder.W1.W",
    "action_head.action_encoder.W1.b",
    "action_head.action_encoder.W2.W",
    "action_head.action_encoder.W2.b",
    "action_head.action_encoder.W3.W",
    "action_head.action_encoder.W3.b",
    "action_head.action_decoder.layer1.W",
    "action_head.action_decoder.layer1.b",
    "action_head.action_decoder.layer2.W",
    "action_head.action_decoder.layer2.b",
    "action_head.position_embedding.weight",
    "action_head.model.timestep_encoder.timestep_embedder.linear_1.weight",
    "action_head.model.timestep_encoder.timestep_embedder.linear_2.bias",
    "action_head.model.transformer_blocks.0.norm1.linear.weight",
    "action_head.model.transformer_blocks.0.attn1.to_q.weight",
    "action_head.model.transformer_blocks.0.attn1.to_k.weight",
    "action_head.model.transformer_blocks.1.attn1.to_k.weight",
    "action_head.model.transformer_blocks.1.attn1.to_v.bias",
    "action_head.model.transformer_blocks.2.attn1.to_k.weight",
    "action_head.model.transformer_blocks.2.attn1.to_out.0.weight",
    "action_head.model.transformer_blocks.3.ff.net.0.proj.bias",
    "action_head.model.transformer_blocks.3.ff.net.2.weight",
    "action_head.model.proj_out_1.weight",
    "action_head.model.proj_out_1.bias",
    "action_head.model.proj_out_2.weight",
    "action_head.model.proj_out_2.bias",
)


def without_effect(name: str) -> bool:
    """A key bias of an attention: softmax does not see it. The backbone's last norm: the action
    head reads the layer before it."""
    return name.endswith(("attn1.to_k.bias", "language_model.norm.weight"))


def weight_kinds() -> list[str]:
    """KINDS, and whatever kind they leave out."""
    if not GOLDEN.is_dir():
        return []
    model = load_model()
    there = dict(model.named_parameters())
    listed = [key for key in KINDS if key in there]
    chosen = {re.sub(r"\d+", "N", key) for key in listed}
    others = kinds(model, without_effect)
    return [*listed, *(key for key in others if re.sub(r"\d+", "N", key) not in chosen)]


@pytest.mark.parametrize("key", weight_kinds())
def test_a_moved_weight_is_noticed(model, key):
    """The comparison is not vacuous: each kind of weight reaches the actions. (A key bias of an
    attention cannot: softmax does not see it.)"""
    parameter = model.get_parameter(key)
    before = parameter.detach().clone()
    noise = torch.randn(before.shape, generator=torch.Generator().manual_seed(0))
    try:
        with torch.no_grad():
            parameter.add_(0.1 * before.abs().max() * noise)
        run = run_case(model, MODEL_CASES[1])
        assert relative_error(run.found["actions"], run.expected["actions"]) > 10 * TOLERANCE
    finally:
        with torch.no_grad():
            parameter.copy_(before)


def test_restored_weights_agree_again(model):
    run = run_case(model, MODEL_CASES[1])
    assert relative_error(run.found["actions"], run.expected["actions"]) < TOLERANCE
