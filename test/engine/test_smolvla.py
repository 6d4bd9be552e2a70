# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA against LeRobot's own results: masked and empty cameras, prompts with and without
padding, every intermediate and solver state, bfloat16, raw images to robot units."""

import json
import logging
import shutil
from functools import lru_cache

import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden, relative_error, tensors
from perturbation import kinds, spoiled
from safetensors.numpy import load_file, save_file

from phyai_ros.engine.models.smolvla.backbone import rotary, rotate
from phyai_ros.engine.models.smolvla.config import BACKBONES, SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import SmolVlaInputs, SmolVlaModel
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.solver import flow_backward
from phyai_ros.engine.types import Guidance, Observation, PolicyError

pytestmark = needs_golden
TOLERANCE = 1e-5
PROMPTS = cases("preprocess/prompts")["cases"] if GOLDEN.is_dir() else []
LISTED = cases("smolvla")["cases"] if GOLDEN.is_dir() else []
CASES = [c["name"] for c in LISTED if "noise" in c["tensors"]]
WHOLE = next((c for c in LISTED if "e2e.state" in c["tensors"]), {"camera_keys": []})
"""The case from raw images to robot units."""
CAMERAS = WHOLE["camera_keys"]


@lru_cache
def policy(dtype: str = "float32"):
    return load_policy(GOLDEN / "smolvla", dtype=dtype)


@lru_cache
def case(name):
    return tensors("smolvla", name)


def steps_of(name: str) -> int:
    return next(c["num_steps"] for c in cases("smolvla")["cases"] if c["name"] == name)


def inputs_of(data) -> SmolVlaInputs:
    cameras = range(sum(key.startswith("images.") for key in data))
    return SmolVlaInputs(
        tuple(data[f"images.{i}"] for i in cameras),
        tuple(data[f"image_masks.{i}"] for i in cameras),
        data["tokens"],
        data["token_mask"],
        data["state"],
    )


@torch.inference_mode()
def sampled(model, name: str) -> dict[str, torch.Tensor]:
    """The first velocity and the actions, under the fixture's names."""
    inputs, steps, noise = inputs_of(case(name)), steps_of(name), case(name)["noise"]
    prefix, constants = model.prefix(inputs, model.vision(inputs)), model.constants(steps)

    def predict(x: torch.Tensor, step: int) -> torch.Tensor:
        return model.predict(x, step, prefix, constants)

    return {
        "velocity_first": predict(noise, 0),
        "actions": flow_backward(predict, noise, steps),
    }


@torch.inference_mode()
def errors(name: str) -> dict[str, float]:
    model, data, steps = policy().adapter.model, case(name), steps_of(name)
    inputs = inputs_of(data)
    features = model.vision(inputs)
    embedded = model.embed(inputs, features)
    keys, values, x = model.caches(embedded)
    prefix, constants = model.prefix(inputs, features), model.constants(steps)
    seen = []

    def predict(x: torch.Tensor, step: int) -> torch.Tensor:
        seen.append(x)
        return model.predict(x, step, prefix, constants)

    result = flow_backward(predict, data["noise"], steps)
    real = data.get("prefix_pad_mask", embedded.pad_mask)
    assert torch.equal(embedded.pad_mask, real)
    positions = data.get("prefix_position_ids", embedded.positions)
    assert torch.equal(embedded.positions, positions)
    batch = len(real)
    found = {
        **{f"image_features.{i}": f for i, f in enumerate(features)},
        "prefix_embs": embedded.x,
        "time_embedding": model.time_embedding(steps)[:1].expand(batch, -1),
        "suffix_embs": model.embed_actions(data["noise"], 0, constants),
        "velocity_first": model.predict(data["noise"], 0, prefix, constants),
        "x_after_each_step": torch.stack([*seen[1:], result], dim=1),
        "actions": result,
    }
    result_errors = {
        key: relative_error(value, data[key]) for key, value in found.items() if key in data
    }
    if "prefix_k.first" not in data:
        return result_errors
    # Padding rows mean nothing, in the fixture as here.
    for key, value in (
        ("prefix_k.first", keys[0]),
        ("prefix_k.last", keys[-1]),
        ("prefix_v.first", values[0]),
        ("prefix_v.last", values[-1]),
    ):
        pair = [t.transpose(1, 2)[real] for t in (value, data[key])]
        result_errors[key] = relative_error(*pair)
    last = model.text_model.layers.at(-1)
    tables = rotary(embedded.positions, model.config.vlm.text.head_dim)
    q = rotate(last.self_attn.query(last.input_layernorm(x)), tables)
    out = last.finish(x, q, keys[-1], values[-1], model.prefix_mask(embedded))
    hidden = model.text_model.norm(out)[real]
    result_errors["prefix_last_hidden"] = relative_error(hidden, data["prefix_last_hidden"][real])
    return result_errors


@pytest.mark.parametrize("name", CASES)
def test_every_intermediate(name):
    found = errors(name)
    assert max(found.values()) < TOLERANCE, found


@pytest.mark.parametrize("name", CASES)
def test_bfloat16_is_no_worse_than_the_reference(name):
    data = case(name)
    for key, found in sampled(policy("bfloat16").adapter.model, name).items():
        own = (data[f"{key}_bf16"] - data[key]).abs().max()
        assert 0 < (found - data[key]).abs().max() <= 1.25 * own, key


def without_effect(name: str) -> bool:
    # A softmax does not see q . b, which is the same for every key.
    return name.startswith("vision_model") and name.endswith("k_proj.bias")


def weight_kinds() -> list[str]:
    return kinds(policy().adapter.model, without_effect) if GOLDEN.is_dir() else []


@pytest.mark.parametrize("name", weight_kinds())
def test_a_wrong_weight_of_any_kind_is_noticed(name):
    with spoiled(policy().adapter.model, name):
        assert max(errors(CASES[0]).values()) > TOLERANCE


def observation(task: str | None = None) -> Observation:
    data = case(WHOLE["name"])
    images = {key: data[f"e2e.raw.{key.rsplit('.', 1)[1]}"].numpy() for key in CAMERAS}
    told = WHOLE["task"] if task is None else task
    return Observation(images, data["e2e.state"].numpy(), told)


def test_raw_images_task_and_state_to_robot_units():
    data = case(WHOLE["name"])
    inputs = policy().adapter.prepare([observation()])
    for i, image in enumerate(inputs.images):
        torch.testing.assert_close(image, data[f"e2e.images.{i}"], rtol=0, atol=1e-6)
    real = inputs.token_mask
    assert torch.equal(inputs.tokens[real], data["e2e.tokens"][data["e2e.token_mask"]])
    width = data["e2e.state_normalised"].shape[1]
    assert torch.equal(inputs.state[:, :width], data["e2e.state_normalised"])
    assert not inputs.state[:, width:].any()
    chunk = policy().infer(observation(), data["e2e.noise"])
    expected = data["e2e.action_chunk"][0]
    assert relative_error(torch.from_numpy(chunk.actions), expected) < TOLERANCE
    normalised = torch.from_numpy(chunk.normalised)[:, : expected.shape[1]]
    assert relative_error(normalised, data["e2e.action_chunk_normalised"][0]) < TOLERANCE


@pytest.mark.parametrize("case", PROMPTS, ids=lambda c: repr(c["instruction"])[:30])
def test_prompts(case, monkeypatch):
    asked = []
    monkeypatch.setattr(
        policy().adapter,
        "tokenizer",
        type("Recorder", (), {"encode": lambda _, text, special: asked.append(text) or [1]})(),
    )
    policy().adapter.tokens(case["instruction"])
    assert asked == [case["smolvla_lerobot"]]


def varied(i: int) -> Observation:
    given = observation(["go", "put the red block in the bowl", "stack the cups, then wait"][i % 3])
    images = {k: np.roll(v, i, axis=1) for k, v in given.images.items()}
    if i % 4 == 1:
        del images[CAMERAS[0]]
    return Observation(images, given.state * (1 + 0.1 * i), given.instruction)


def test_a_request_is_answered_alike_alone_and_in_a_batch():
    several = [varied(i) for i in range(8)]
    noise = torch.randn(policy().adapter.noise_shape(8), generator=torch.Generator().manual_seed(0))
    together = policy().infer_batch(several, noise)
    for i, (one, chunk) in enumerate(zip(several, together, strict=True)):
        alone = policy().infer(one, noise[i])
        assert np.abs(alone.actions - chunk.actions).max() < 1e-5 * np.abs(alone.actions).max()


def test_padding_changes_nothing():
    adapter, noise = policy().adapter, torch.zeros(policy().adapter.noise_shape(1))
    assert adapter.graph_lengths(()) == (16, 24)
    short = policy().infer(observation(), noise).actions
    most = policy().spec.max_prompt_tokens
    adapter.token_lengths = (most,)
    try:
        assert adapter.prepare([observation()]).tokens.shape == (1, most)
        long = policy().infer(observation(), noise).actions
    finally:
        adapter.token_lengths = ()
    assert np.abs(short - long).max() < 1e-5 * np.abs(short).max()


def test_every_condition_changes_the_actions():
    noise = torch.zeros(policy().adapter.noise_shape(1))
    base, given = policy().infer(observation(), noise).actions, observation()
    image = {**given.images, CAMERAS[1]: 255 - given.images[CAMERAS[1]]}
    changed = {
        "image": Observation(image, given.state, given.instruction),
        "camera": Observation({CAMERAS[0]: image[CAMERAS[0]]}, given.state, given.instruction),
        "state": Observation(given.images, given.state + 1, given.instruction),
        "instruction": observation("put the green block in the bowl"),
    }
    for what, other in changed.items():
        assert np.abs(policy().infer(other, noise).actions - base).max() > 1e-4, what
    np.testing.assert_array_equal(policy().infer(observation(), noise).actions, base)


@pytest.mark.parametrize("statistic", ["mean", "std"])
@pytest.mark.parametrize("side", ["observation.state", "action"])
def test_changed_statistics_change_the_actions(tmp_path, side, statistic):
    checkpoint = shutil.copytree(GOLDEN / "smolvla", tmp_path / "smolvla")
    pattern = "*unnormalizer*" if side == "action" else "*step_5_normalizer*"
    (file,) = checkpoint.glob(pattern + ".safetensors")
    statistics = load_file(file)
    statistics[f"{side}.{statistic}"] *= np.float32(1.05)
    save_file(statistics, file)
    noise = torch.zeros(policy().adapter.noise_shape(1))
    found = load_policy(checkpoint).infer(observation(), noise).actions
    assert np.abs(found - policy().infer(observation(), noise).actions).max() > 1e-5


def test_encode_is_the_inverse_of_decode():
    noise = torch.zeros(policy().adapter.noise_shape(1))
    chunk = policy().infer(observation(), noise)
    found = policy().adapter.encode(chunk.actions, observation())
    width = policy().spec.action_dim
    assert np.abs(found[:, :width] - chunk.normalised[:, :width]).max() < 1e-5
    assert not found[:, width:].any()


@pytest.mark.parametrize("method", ["rtc_identity", "rtc_vjp"])
def test_guidance_pulls_the_chunk_towards_what_is_left(method):
    noise = torch.zeros(policy().adapter.noise_shape(1))
    free = policy().infer(observation(), noise).actions
    leftover = free[:5] + 0.1 * np.abs(free).max()
    guidance = Guidance(leftover, 2, method, 4)
    guided = policy().infer(observation(), noise, guidance).actions
    assert np.abs(guided[:2] - leftover[:2]).max() < 0.5 * np.abs(free[:2] - leftover[:2]).max()


def test_no_camera_at_all_is_refused():
    given = observation()
    with pytest.raises(PolicyError, match=f"none of the cameras.*{CAMERAS[0]}"):
        policy().infer(Observation({}, given.state, given.instruction))


def test_a_long_prompt_is_cut_with_one_warning(caplog):
    fresh = load_policy(GOLDEN / "smolvla")
    noise = torch.zeros(fresh.adapter.noise_shape(1))
    with caplog.at_level(logging.WARNING):
        first = fresh.infer(observation("pick " * 100), noise)
        second = fresh.infer(observation("pick " * 200), noise)
    assert len(caplog.records) == 1
    assert f"cut to the model's {fresh.spec.max_prompt_tokens}" in caplog.text
    np.testing.assert_array_equal(first.actions, second.actions)


def test_the_published_size_builds():
    config = SmolVlaConfig.parse({}, None, "nowhere")
    assert (config.expert_hidden_size, config.expert_intermediate_size) == (720, 2048)
    assert config.image_tokens == 64
    with torch.device("meta"):
        model = SmolVlaModel(config)
    # 0.45 B with the language head, which inference does not hold.
    count = sum(p.numel() for p in model.parameters())
    assert count + 49280 * 960 == pytest.approx(0.45e9, rel=0.02)


@pytest.mark.parametrize("name", BACKBONES)
def test_every_known_backbone_builds(name):
    with torch.device("meta"):
        side = BACKBONES[name].vision.image_size
        config = {"vlm_model_name": name, "resize_imgs_with_padding": [side, side]}
        SmolVlaModel(SmolVlaConfig.parse(config, None, "nowhere"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vlm_model_name": "someone/else"}, "vlm_model_name is 'someone/else'.*SmolVLM2-500M"),
        ({"adapt_to_pi_aloha": True}, "adapt_to_pi_aloha is true"),
        ({"attention_mode": "none"}, "attention_mode is 'none'.*cross_attn"),
        ({"num_expert_layers": 5}, "num_expert_layers 5 must divide num_vlm_layers 16"),
        ({"num_expert_layers": 4, "self_attn_every_n_layers": 2}, "layer 2.*no expert layer"),
        ({"resize_imgs_with_padding": [224, 224]}, r"\[224, 224\].*\[512, 512\]"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, words):
    with pytest.raises(PolicyError, match=words):
        SmolVlaConfig.parse(change, None, "nowhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_state_dim": 2}, r"observation.state has \d+ values, the model takes 2"),
        ({"max_action_dim": 2}, r"action has \d+ values, the model takes 2"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(tmp_path, change, words):
    checkpoint = shutil.copytree(GOLDEN / "smolvla", tmp_path / "smolvla")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(PolicyError, match=words):
        load_policy(checkpoint)
