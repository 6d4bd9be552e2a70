# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT against LeRobot's own results: every intermediate, the actions, raw images to robot units."""

import shutil
from functools import lru_cache

import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden, relative_error, tensors
from perturbation import kinds, spoiled
from safetensors.numpy import load_file, save_file

from phyai_ros.control import methods
from phyai_ros.control.chunk import Chunk, Plan
from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.models.act.model import ActInputs, ActModel
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation, PolicyError

pytestmark = needs_golden
TOLERANCE = 1e-5
FILE = cases("act") if GOLDEN.is_dir() else {"cases": [], "camera_order": []}
CAMERAS = tuple(FILE["camera_order"])


def named(tensor: str) -> list[dict]:
    """The cases that record this tensor."""
    return [c for c in FILE["cases"] if tensor in c["tensors"]]


MODEL = [c["name"] for c in named("actions")]
WHOLE = [c["name"] for c in named("e2e.state")]
ENSEMBLES = named("ensembled")


@lru_cache
def policy():
    return load_policy(GOLDEN / "act")


@lru_cache
def case(name):
    return tensors("act", name)


@torch.inference_mode()
def errors(name: str) -> dict[str, float]:
    model, data = policy().adapter.model, case(name)
    inputs = ActInputs(
        tuple(data[f"images.{c}"] for c in CAMERAS),
        data["state"],
        data.get("environment_state"),
        len(data["state"]),
    )
    features = model.vision(inputs)
    tokens, positions = model.tokens(inputs, features)
    prefix, constants = model.prefix(inputs, features), model.constants(1)
    found = {
        **{f"feature_map.{c}": f for c, f in zip(CAMERAS, features, strict=True)},
        "encoder_tokens": tokens,
        "encoder_positions": positions,
        "encoder_output": prefix.memory,
        "decoder_output": model.decode(prefix, constants),
        "actions": model.predict(torch.zeros(()), 0, prefix, constants),
    }
    return {key: relative_error(value, data[key]) for key, value in found.items() if key in data}


@pytest.mark.parametrize("name", MODEL)
def test_every_intermediate(name):
    found = errors(name)
    assert max(found.values()) < TOLERANCE, found


def without_effect(name: str) -> bool:
    # The first decoder layer's input is zeros: its self-attention is a constant of its biases.
    return name == "decoder.layers.0.self_attn.in_proj_weight" or name.startswith(
        "encoder_latent_input_proj.weight"  # the latent is zero
    )


def weight_kinds() -> list[str]:
    return kinds(policy().adapter.model, without_effect) if GOLDEN.is_dir() else []


@pytest.mark.parametrize("name", weight_kinds())
def test_a_wrong_weight_of_any_kind_is_noticed(name):
    with spoiled(policy().adapter.model, name):
        assert max(errors(MODEL[0]).values()) > TOLERANCE


STATES = ("e2e.state", "e2e.environment_state")


def observation(shift: int = 0) -> Observation:
    data = case(WHOLE[0])
    images = {f"observation.images.{c}": data[f"e2e.raw.{c}"].numpy() for c in CAMERAS}
    return Observation(
        {k: np.roll(v, shift, axis=1) for k, v in images.items()},
        torch.cat([data[k] for k in STATES if k in data]).numpy() * (1 + 0.01 * shift),
        "",
    )


def test_raw_images_and_state_to_robot_units():
    data = case(WHOLE[0])
    inputs = policy().adapter.prepare([observation()])
    for image, camera in zip(inputs.images, CAMERAS, strict=True):
        torch.testing.assert_close(image, data[f"e2e.images.{camera}"], rtol=0, atol=0)
    torch.testing.assert_close(inputs.state, data["e2e.state_normalised"], rtol=0, atol=0)
    if inputs.env is not None:
        expected = data["e2e.environment_state_normalised"]
        torch.testing.assert_close(inputs.env, expected, rtol=0, atol=0)
    chunk = policy().infer(observation())
    found, expected = torch.from_numpy(chunk.actions), data["e2e.action_chunk"][0]
    assert relative_error(found, expected) < TOLERANCE
    normalised = data["e2e.action_chunk_normalised"][0]
    assert relative_error(torch.from_numpy(chunk.normalised), normalised) < TOLERANCE


def test_a_request_is_answered_alike_alone_and_in_a_batch():
    several = [observation(i) for i in range(8)]
    together = policy().infer_batch(several)
    for one, chunk in zip(several, together, strict=True):
        alone = policy().infer(one)
        assert np.abs(alone.actions - chunk.actions).max() < 1e-5 * np.abs(alone.actions).max()


@pytest.mark.parametrize(
    "key",
    [
        *("observation.state.mean", "observation.state.std"),
        *(f"observation.images.{c}.{s}" for c in CAMERAS[:2] for s in ("mean", "std")),
    ],
)
def test_changed_input_statistics_change_the_actions(tmp_path, key):
    checkpoint = shutil.copytree(GOLDEN / "act", tmp_path / "act")
    file = checkpoint / "policy_preprocessor_step_3_normalizer_processor.safetensors"
    statistics = load_file(file)
    statistics[key] = statistics[key] * np.float32(1.05)
    save_file(statistics, file)
    changed = load_policy(checkpoint).infer(observation()).actions
    assert np.abs(changed - policy().infer(observation()).actions).max() > 1e-4


@pytest.mark.parametrize("about", ENSEMBLES, ids=lambda c: c["name"])
def test_temporal_ensembling(about):
    """The handoff's ensemble method, one chunk a tick, against the official ensembler."""
    data, decay = case(about["name"]), about["temporal_ensemble_coeff"]
    steps, batch, horizon, width = data["chunks"].shape
    names, free = tuple(f"joint_{i}" for i in range(width)), np.zeros(width, bool)
    for request in range(batch):
        method, plan = methods.make("ensemble", decay=decay), None
        for now in range(steps):
            rows = data["chunks"][now, request].double().numpy()
            new = Plan(now, rows, Chunk(now, 1, 0.05 * now, names, 0.05, rows))
            plan = method.splice(plan, new, now, free)
            expected = data["ensembled"][now, request].numpy()
            assert np.abs(plan.row(now) - expected).max() < 1e-6 * np.abs(expected).max()
    assert steps > horizon


def test_bfloat16_runs_and_stays_near():
    exact = policy().infer(observation()).normalised
    rough = load_policy(GOLDEN / "act", dtype="bfloat16").infer(observation()).normalised
    assert 0 < np.abs(rough - exact).max() < 0.05 * np.abs(exact).max()


def test_an_image_of_another_size_is_refused_by_name():
    given = observation()
    key = f"observation.images.{CAMERAS[-1]}"
    height, width, _ = given.images[key].shape
    images = {**given.images, key: np.zeros((height, width + 1, 3), np.uint8)}
    words = rf"{CAMERAS[-1]}.*\[{height}, {width}, 3\].*\[{height}, {width + 1}, 3\]"
    with pytest.raises(PolicyError, match=words):
        policy().infer(Observation(images, given.state, ""))


def test_the_published_size_builds():
    config = ActConfig(cameras=("top",), state_dim=14, env_dim=0, action_dim=14)
    with torch.device("meta"):
        model = ActModel(config)
    # LeRobot's ACT for ALOHA has 51.6 M learnable parameters with the VAE encoder, which is four
    # more encoder layers and a few vectors.
    learnable = sum(p.numel() for n, p in model.named_parameters() if ".bn" not in n)
    layer = sum(p.numel() for p in model.encoder.layers.at(0).parameters())
    assert learnable + 4 * layer == pytest.approx(51.6e6, rel=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vision_backbone": "vit"}, "vision_backbone is 'vit'.*resnet18"),
        ({"feedforward_activation": "glu"}, "feedforward_activation is 'glu'.*gelu"),
        ({"n_heads": 3}, "dim_model 32"),
        ({"n_obs_steps": 2}, "n_obs_steps: expected 1, found 2"),
        ({"n_action_steps": 11}, r"n_action_steps 11 must be 1\.\.10"),
        ({"replace_final_stride_with_dilation": True}, "bottleneck"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, words):
    given = {"chunk_size": 10, "n_action_steps": 10, "dim_model": 32, "n_heads": 4, **change}
    with pytest.raises(PolicyError, match=words):
        ActConfig.parse(given, "config.json", cameras=CAMERAS, state_dim=7, env_dim=0, action_dim=7)


@pytest.mark.parametrize(("written", "dilates"), [(0, False), (1, True), (False, False)])
def test_lerobot_writes_the_dilation_as_a_number_too(written, dilates):
    """It declares a whole number, so a config that it has read and saved again has 0 for false."""
    given = {"vision_backbone": "resnet50", "replace_final_stride_with_dilation": written}
    config = ActConfig.parse(
        given, "config.json", cameras=CAMERAS, state_dim=7, env_dim=0, action_dim=7
    )
    assert config.replace_final_stride_with_dilation is dilates
