# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Checkpoint layouts of pi0 and pi0.5: old and tied keys, shards, and every refusal by name."""

import json

import pi_cases
import pytest
import torch
from golden import needs_golden, relative_error, tensors
from safetensors.torch import save_file

from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.paligemma import config as config_
from phyai_ros.engine.models.paligemma import keys
from phyai_ros.engine.models.paligemma.lerobot import flow_config
from phyai_ros.engine.models.pi0.adapter import FAMILY as PI0
from phyai_ros.engine.models.pi05.adapter import FAMILY as PI05
from phyai_ros.engine.models.pi05.model import Pi05
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError

pytestmark = needs_golden
FAMILY = {"pi0": PI0, "pi05": PI05}
TIED = "paligemma_with_expert.paligemma.lm_head.weight"
EMBEDDING = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"


def check(directory, fixture):
    """The checkpoint gives the fixture's actions."""
    model = load_policy(directory).adapter.model
    _, actions = pi_cases.run(model, fixture, "case0")
    assert relative_error(actions, tensors(fixture, "case0")["actions"]) < 1e-5


def renamed(rule):
    return lambda weights: {rule(key): value for key, value in weights.items()}


def older_transformers(key):
    """transformers before 4.52 had the parts of PaliGemma one level higher."""
    start = "paligemma_with_expert.paligemma."
    key = key.replace(start + "model.vision_tower.", start + "vision_tower.")
    key = key.replace(start + "model.multi_modal_projector.", start + "multi_modal_projector.")
    key = key.replace(start + "model.language_model.", start + "language_model.model.")
    return key.replace(start + "lm_head.", start + "language_model.lm_head.")


def other_time_mlp(fixture):
    if fixture == "pi05":
        return lambda key: key.replace("model.time_mlp", "model.action_time_mlp")
    return lambda key: key.replace("action_time_mlp", "time_mlp")


@pytest.mark.parametrize("fixture", pi_cases.LEROBOT)
@pytest.mark.parametrize(
    "edit",
    [
        lambda fixture: renamed(older_transformers),
        lambda fixture: renamed(other_time_mlp(fixture)),
        lambda fixture: renamed(lambda key: key.removeprefix("model.")),
        lambda fixture: lambda w: {k: v for k, v in w.items() if k != "model." + EMBEDDING},
        lambda fixture: lambda w: {k: v for k, v in w.items() if "lm_head" not in k},
    ],
    ids=["older-transformers", "older-time-mlp", "no-prefix", "only-lm-head", "no-lm-head"],
)
def test_other_keys_of_the_same_weights(tmp_path, fixture, edit):
    directory = pi_cases.copy(fixture, tmp_path)
    pi_cases.edit_weights(directory, edit(fixture))
    check(directory, fixture)


def test_pi05_ignores_a_state_projection(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    extra = {"model.state_proj.weight": torch.zeros(2), "model.state_proj.bias": torch.zeros(2)}
    pi_cases.edit_weights(directory, lambda w: {**w, **extra})
    check(directory, "pi05")


def shard(directory, count=3):
    """model.safetensors -> shards and an index."""
    weights = {}
    pi_cases.edit_weights(directory, lambda w: weights.update(w) or w)
    (directory / "model.safetensors").unlink()
    parts = [dict(list(weights.items())[i::count]) for i in range(count)]
    index = {}
    for i, part in enumerate(parts):
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        save_file({k: v.contiguous() for k, v in part.items()}, directory / name)
        index.update(dict.fromkeys(part, name))
    text = json.dumps({"metadata": {}, "weight_map": index})
    (directory / "model.safetensors.index.json").write_text(text)


@pytest.mark.parametrize("fixture", pi_cases.FIXTURES)
def test_sharded(tmp_path, fixture):
    """Rows of one product then come from different files."""
    directory = pi_cases.copy(fixture, tmp_path)
    shard(directory)
    check(directory, fixture)


@pytest.mark.parametrize("fixture", pi_cases.LEROBOT)
def test_written_weights_are_the_read_ones(tmp_path, fixture):
    directory = pi_cases.copy(fixture, tmp_path)
    model = load_policy(directory).adapter.model
    written = keys.checkpoint_tensors(model, FAMILY[fixture].table(model.config))
    before = {}
    pi_cases.edit_weights(directory, lambda w: before.update(w) or written)
    for key, tensor in written.items():
        torch.testing.assert_close(tensor, before[key], rtol=0, atol=0)
    assert {k for k in before if "lm_head" not in k} == set(written)
    check(directory, fixture)


def test_architecture_is_written_as_it_is_read(tmp_path):
    checkpoint = Checkpoint(pi_cases.copy("pi05", tmp_path))
    tiny = flow_config(checkpoint, "config.json")
    full = config_.FlowConfig(
        config_.SiglipConfig(),
        config_.GEMMA_VARIANTS["gemma_2b"],
        config_.GEMMA_VARIANTS["gemma_300m"],
        tiny.horizon,
        tiny.action_width,
        tiny.state_width,
    )
    assert config_.override(full, config_.describe(tiny), "architecture.json") == tiny


def test_model_with_random_weights_trains():
    """Built from a config, no checkpoint: gradients reach every weight that acts."""
    small = config_.FlowConfig(
        config_.SiglipConfig(16, 1, 32, 2, 4, 8),
        config_.GemmaConfig(16, 2, 32, 2, 1, 8, 40),
        config_.GemmaConfig(16, 2, 32, 2, 1, 8),
        horizon=4,
        action_width=3,
        state_width=3,
    )
    torch.manual_seed(0)
    model = Pi05(small)
    batch = pi_cases.Inputs(
        torch.rand(2, 1, 3, 8, 8),
        torch.ones(2, 1, dtype=torch.bool),
        torch.randint(0, 40, (2, 6)),
        torch.ones(2, 6, dtype=torch.bool),
        torch.zeros(2, 3),
    )
    noise, actions, time = torch.randn(2, 4, 3), torch.randn(2, 4, 3), torch.rand(2, 1)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        prefix = model.prefix(batch, model.vision(batch))
        x = time[..., None] * noise + (1 - time[..., None]) * actions
        velocity = model.velocity(x, prefix, model.condition(time))
        loss = (velocity - (noise - actions)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert all(n.startswith(("language.norm", "language.layers.1.")) for n in idle), idle
    assert losses[-1] < 0.5 * losses[0]


REFUSALS = {
    "unknown-variant": (
        "pi05",
        "config.json",
        {"paligemma_variant": "gemma_9b"},
        r"config.json: paligemma_variant is 'gemma_9b'; known: gemma_2b, gemma_300m",
    ),
    "memory": ("pi05", "config.json", {"use_visual_memory": True}, "use_visual_memory is True"),
    "image-not-square": (
        "pi0",
        "config.json",
        {"image_resolution": [56, 42]},
        r"must be square, found \[56, 42\]",
    ),
    "image-size": ("pi0", "config.json", {"image_resolution": [70, 70]}, "image_size is 56.*70"),
    "history": ("pi0", "config.json", {"n_obs_steps": 2}, "n_obs_steps is 2; expected 1"),
    "narrow-state": (
        "pi0",
        "config.json",
        {"max_state_dim": 4},
        "observation.state has 7 values.*takes 4",
    ),
    "narrow-action": ("pi0", "config.json", {"max_action_dim": 4}, "action has 7 .*takes 4"),
    "chunk": ("pi05", "config.json", {"chunk_size": "x"}, "chunk_size must be a whole number"),
    "delay": (
        "pi05",
        "config.json",
        {"rtc_training_max_delay": 12},
        "rtc_training_max_delay must be below the horizon 12, found 12",
    ),
    "wide-action": (
        "pi05",
        "config.json",
        {"max_action_dim": 16},
        r"'model.action_in_proj.weight': expected shape \(32, 16\), found \(32, 8\)",
    ),
    "openpi-horizon": (
        "pi0_openpi",
        "config.json",
        {"action_horizon": None},
        "action_horizon must be a whole number, found None; the file has action_dim",
    ),
    "openpi-mask": (
        "pi0_openpi",
        "config.json",
        {"delta_action_mask": [True] * 9},
        "delta_action_mask has 9 columns",
    ),
    "openpi-mask-in-words": (
        "pi0_openpi",
        "config.json",
        {"delta_action_mask": ["false", True]},
        r"delta_action_mask: expected a list of true and false, found \['false', True\]",
    ),
    "openpi-flag-in-quotes": (
        "pi05_openpi",
        "config.json",
        {"discrete_state_input": "false"},
        "config.json: discrete_state_input: expected true or false, found 'false'",
    ),
    "openpi-limit": (
        "pi05_openpi",
        "config.json",
        {"max_token_len": -3},
        "config.json: max_token_len: expected a whole number from 1.*found -3",
    ),
    "openpi-wide-action": (
        "pi05_openpi",
        "assets/droid/norm_stats.json",
        {"norm_stats": {k: {"q01": [0.0] * 9, "q99": [1.0] * 9} for k in ("state", "actions")}},
        "norm_stats.json: norm_stats.state has 9 columns, the model takes 8",
    ),
    "openpi-statistics": (
        "pi05_openpi",
        "assets/droid/norm_stats.json",
        {"norm_stats": {"state": {"mean": [0.0]}}},
        r"norm_stats.json: norm_stats.state.q01 is absent; there are \['mean'\]",
    ),
    "openpi-no-numbers": (
        "pi05_openpi",
        "assets/droid/norm_stats.json",
        {"norm_stats": {"state": {"q01": ["low"], "q99": [1.0]}}},
        r"norm_stats.json: norm_stats.state.q01: expected numbers, found \['low'\]",
    ),
    "architecture": (
        "pi0",
        "architecture.json",
        {"gemma_expert": {"hidden_size": 1.5}},
        r"architecture.json: expert.width: expected a whole number.*found 1.5",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(tmp_path, name):
    fixture, file, changes, text = REFUSALS[name]
    directory = pi_cases.copy(fixture, tmp_path)
    pi_cases.edit_json(directory / file, **changes)
    with pytest.raises(PolicyError, match=text):
        load_policy(directory)


def test_normalised_images_are_refused(tmp_path):
    directory = pi_cases.copy("pi0", tmp_path)
    path = directory / "policy_preprocessor.json"
    modes = {"VISUAL": "MEAN_STD", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"}
    pi_cases.edit_step(path, "normalizer_processor", norm_map=modes)
    with pytest.raises(PolicyError, match=r"norm_map.VISUAL is 'MEAN_STD'.*expected IDENTITY"):
        load_policy(directory)


def test_missing_weights_are_named(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    name = "paligemma_with_expert.gemma_expert.model.layers.1.self_attn.k_proj.weight"
    pi_cases.edit_weights(directory, lambda w: {k: v for k, v in w.items() if name not in k})
    with pytest.raises(PolicyError, match=f"1 weights of pi05 are missing: {name}"):
        load_policy(directory)


def test_unknown_weights_are_named(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    extra = {"model.proprio_history_proj.weight": torch.zeros(2, 2)}
    pi_cases.edit_weights(directory, lambda w: {**w, **extra})
    with pytest.raises(PolicyError, match=r"unexpected: 'model.proprio_history_proj.weight'"):
        load_policy(directory)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    key = "model.action_out_proj.bias"
    pi_cases.edit_weights(directory, lambda w: {**w, key: torch.full_like(w[key], torch.nan)})
    with pytest.raises(PolicyError, match=r"'action_out.bias' is not finite"):
        load_policy(directory)


def test_wrong_family(tmp_path):
    directory = pi_cases.copy("pi05", tmp_path)
    with pytest.raises(PolicyError, match="family 'pi0' asked for, but this is 'pi05'"):
        load_policy(directory, family="pi0")


def test_embodiment_chooses_among_assets(tmp_path):
    directory = pi_cases.copy("pi05_openpi", tmp_path)
    other = directory / "assets" / "lab" / "arm"
    other.mkdir(parents=True)
    text = (directory / "assets/droid/norm_stats.json").read_text()
    (other / "norm_stats.json").write_text(text)
    with pytest.raises(PolicyError, match=r"several asset ids, name one.*: droid, lab/arm"):
        load_policy(directory)
    spec = load_policy(directory, embodiment="lab/arm").spec
    assert (spec.embodiment, spec.embodiments) == ("lab/arm", ("droid", "lab/arm"))
    with pytest.raises(PolicyError, match="no embodiment tags"):
        load_policy(pi_cases.copy("pi05", tmp_path), embodiment="droid")


def test_padded_statistics_do_not_count_as_columns(tmp_path):
    spec = load_policy(pi_cases.copy("pi05_openpi", tmp_path)).spec
    assert (spec.state_dim, spec.action_dim, spec.model_action_dim) == (6, 6, 8)


def test_no_assets(tmp_path):
    directory = pi_cases.copy("pi0_openpi", tmp_path)
    (directory / "assets/trossen/norm_stats.json").unlink()
    with pytest.raises(PolicyError, match=r"assets: no <asset id>/norm_stats.json"):
        load_policy(directory)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_length": -1}, "max_length: expected a whole number from 1"),
        ({"max_length": "48"}, "max_length: expected a whole number from 1"),
        ({"truncation": False}, "truncation: expected true, found False"),
    ],
)
@pytest.mark.parametrize("fixture", ["pi0", "smolvla"])
def test_a_prompt_limit_that_is_none_is_refused(tmp_path, fixture, change, says):
    directory = pi_cases.copy(fixture, tmp_path)
    pi_cases.edit_step(directory / "policy_preprocessor.json", "tokenizer_processor", **change)
    with pytest.raises(PolicyError, match=rf"policy_preprocessor.json: tokenizer_processor.{says}"):
        load_policy(directory)


def test_the_tokenizer_that_lerobot_saved_with_the_policy(tmp_path):
    """Since 0.6.2: a directory beside the weights, named by the tokenizer's step."""
    directory = pi_cases.copy("pi05", tmp_path)
    own = directory / "tokenizer"
    own.mkdir()
    for file in directory.glob("tokenizer*.json"):
        file.rename(own / file.name)
    with pytest.raises(PolicyError, match=r"no tokenizer.json"):
        load_policy(directory)
    file = directory / "policy_preprocessor.json"
    pi_cases.edit_step(file, "tokenizer_processor", tokenizer_name="tokenizer")
    check(directory, "pi05")
