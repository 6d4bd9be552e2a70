# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Diffusion Policy against LeRobot's own results: batch norm and group norm, DDIM, DDPM and sample
prediction, every solver state, and a closed loop from raw frames."""

import json
import shutil
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import torch
from golden import GOLDEN, cases, needs_golden, relative_error, tensors
from perturbation import kinds, spoiled
from safetensors.torch import load_file, save_file

from phyai_ros.engine.models.diffusion.config import DiffusionConfig
from phyai_ros.engine.models.diffusion.model import DiffusionInputs, DiffusionModel
from phyai_ros.engine.noise_schedule import Ddpm
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import Observation, PolicyError

pytestmark = needs_golden
TOLERANCE = 1e-5
FIXTURES = ("diffusion", "diffusion_gn")


@pytest.fixture(scope="module")
def variant(tmp_path_factory):
    """(fixture, overrides of config.json) -> the policy of a checkpoint that differs in these."""

    @lru_cache
    def load(fixture: str, overrides: str):
        if overrides == "{}":
            return load_policy(GOLDEN / fixture)
        root = tmp_path_factory.mktemp(fixture) / "checkpoint"
        shutil.copytree(GOLDEN / fixture, root)
        config = json.loads((root / "config.json").read_text())
        (root / "config.json").write_text(json.dumps({**config, **json.loads(overrides)}))
        return load_policy(root)

    return lambda fixture, overrides: load(fixture, json.dumps(overrides))


@torch.inference_mode()
def errors(policy, data) -> dict[str, float]:
    adapter, model = policy.adapter, policy.adapter.model
    inputs = DiffusionInputs(adapter.transform(data["images"]), data["state"], None)
    steps = adapter.spec.denoising_steps
    prefix = model.prefix(inputs, model.vision(inputs))
    constants = model.constants(steps)
    seen = []

    def predict(x: torch.Tensor, step: int) -> torch.Tensor:
        seen.append(x)
        return model.predict(x, step, prefix, constants)

    noise = data["noise"]
    if isinstance(adapter.solver, Ddpm):
        noise = torch.cat([noise[:, None], data["step_noise"]], dim=1)
    trajectory = adapter.solver(predict, noise, steps)
    first = adapter.config.n_obs_steps - 1
    found = {
        "global_cond": prefix.condition,
        "step_embedding_first": constants.embeddings[:1].expand(len(noise), -1),
        "unet_output_first": model.predict(seen[0], 0, prefix, constants),
        "unet_inputs": torch.stack(seen, dim=1),
        "actions": trajectory[:, first : first + adapter.config.n_action_steps],
        "trajectory": trajectory,
    }
    return {key: relative_error(x, data[key]) for key, x in found.items() if key in data}


CASES = [
    (fixture, case["name"], case["overrides"])
    for fixture in FIXTURES
    for case in (cases(fixture)["cases"] if GOLDEN.is_dir() else [])
    if "actions" in case["tensors"]
]


FIRST = {fixture: name for fixture, name, _ in reversed(CASES)}


@pytest.mark.parametrize(("fixture", "name", "overrides"), CASES)
def test_every_solver_state(variant, fixture, name, overrides):
    policy, data = variant(fixture, overrides), tensors(fixture, name)
    assert list(policy.adapter.config.schedule.timesteps) == data["timesteps"].tolist()
    found = errors(policy, data)
    assert len(found) >= 5
    assert max(found.values()) < TOLERANCE, found


def without_effect(name: str) -> bool:
    # A softmax over pixels does not see a constant added to all of them.
    return name.endswith("pool.nets.bias")


def weight_kinds() -> list[tuple[str, str]]:
    if not GOLDEN.is_dir():
        return []
    models = {fixture: load_policy(GOLDEN / fixture).adapter.model for fixture in FIXTURES}
    return [(f, name) for f, model in models.items() for name in kinds(model, without_effect)]


@pytest.mark.parametrize(("fixture", "name"), weight_kinds())
def test_a_wrong_weight_of_any_kind_is_noticed(variant, fixture, name):
    policy = variant(fixture, {})
    with spoiled(policy.adapter.model, name):
        assert max(errors(policy, tensors(fixture, FIRST[fixture])).values()) > TOLERANCE


def rollout(fixture: str) -> str:
    listed = cases(fixture)["cases"]
    return next(c["name"] for c in listed if "rollout.state" in c["tensors"])


def frames(fixture: str, cameras: tuple[str, ...]) -> list[Observation]:
    """The recorded rollout, each moment with all before it as its history."""
    data = tensors(fixture, rollout(fixture))
    moments = [
        Observation(
            {c: data[f"rollout.raw.{c.rsplit('.', 1)[1]}"][t].numpy() for c in cameras},
            data["rollout.state"][t].numpy(),
            "",
        )
        for t in range(len(data["rollout.state"]))
    ]
    return [replace(m, history=tuple(moments[:t])) for t, m in enumerate(moments)]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_the_closed_loop_from_raw_frames(variant, fixture):
    policy, data = variant(fixture, {}), tensors(fixture, rollout(fixture))
    moments = frames(fixture, policy.spec.cameras)
    assert policy.spec.history == policy.adapter.config.n_obs_steps - 1
    rows = policy.spec.horizon
    noise = iter(data["rollout.noise"])
    chunks = [policy.infer(m, next(noise)) for m in moments[::rows]]
    first = policy.spec.history
    for found, name in (
        ([c.actions for c in chunks], "rollout.actions"),
        ([c.normalised[first : first + rows] for c in chunks], "rollout.actions_normalised"),
    ):
        expected = data[name]
        whole = torch.from_numpy(np.concatenate(found)[: len(expected)])
        assert relative_error(whole, expected) < TOLERANCE, name


@pytest.mark.parametrize("fixture", FIXTURES)
def test_the_history_counts_and_a_short_one_repeats_its_oldest(variant, fixture):
    policy = variant(fixture, {})
    moment = frames(fixture, policy.spec.cameras)[5]
    noise = torch.zeros(policy.adapter.noise_shape(1))
    bare = replace(moment, history=())
    still = replace(moment, history=(bare,))
    needed = moment.history[-policy.spec.history :]
    long = replace(moment, history=(bare, bare, *needed))
    with_history = policy.infer(moment, noise).actions
    np.testing.assert_array_equal(
        policy.infer(bare, noise).actions, policy.infer(still, noise).actions
    )
    np.testing.assert_array_equal(policy.infer(long, noise).actions, with_history)
    assert np.abs(with_history - policy.infer(bare, noise).actions).max() > 1e-4


@pytest.mark.parametrize(
    ("fixture", "overrides"), list(product(FIXTURES, [{}, {"noise_scheduler_type": "DDPM"}]))
)
def test_a_request_is_answered_alike_alone_and_in_a_batch(variant, fixture, overrides):
    policy = variant(fixture, {**overrides, "num_inference_steps": 4} if overrides else {})
    moments = frames(fixture, policy.spec.cameras)[:8]
    noise = torch.randn(policy.adapter.noise_shape(8), generator=torch.Generator().manual_seed(0))
    together = policy.infer_batch(moments, noise)
    for i, (moment, chunk) in enumerate(zip(moments, together, strict=True)):
        alone = policy.infer(moment, noise[i])
        assert np.abs(alone.actions - chunk.actions).max() < 1e-4 * np.abs(alone.actions).max()


@pytest.mark.parametrize("fixture", FIXTURES)
def test_bfloat16_runs_and_stays_near(variant, fixture):
    exact = variant(fixture, {})
    rough = load_policy(GOLDEN / fixture, dtype="bfloat16")
    moment = frames(fixture, exact.spec.cameras)[3]
    noise = torch.zeros(exact.adapter.noise_shape(1))
    found, expected = rough.infer(moment, noise).normalised, exact.infer(moment, noise).normalised
    assert 0 < np.square(found - expected).mean() ** 0.5 < 0.1 * np.square(expected).mean() ** 0.5


def test_ddpm_noise_counts_in_every_step(variant):
    policy = variant("diffusion", {"noise_scheduler_type": "DDPM", "num_inference_steps": 6})
    moment = frames("diffusion", policy.spec.cameras)[0]
    noise = torch.zeros(policy.adapter.noise_shape(1))
    config = policy.adapter.config
    assert list(noise.shape) == [1, 6, config.horizon, config.action_dim]
    still = policy.infer(moment, noise).actions
    for step in range(6):
        moved = noise.clone()
        moved[:, step] = 1.0
        assert np.abs(policy.infer(moment, moved).actions - still).max() > 1e-4


def test_an_earlier_moment_that_does_not_fit_is_refused_by_name(variant):
    policy = variant("diffusion", {})
    moment = frames("diffusion", policy.spec.cameras)[1]
    (before,) = moment.history
    first, last = policy.spec.cameras[0], policy.spec.cameras[-1]
    height, width = policy.spec.camera_sizes[first]
    values = f"history.*{policy.spec.state_dim} finite values"
    fewer = {key: image for key, image in before.images.items() if key != last}
    bad = [
        (replace(before, images=fewer), f"history.*lacks camera.*{last}"),
        (replace(before, state=before.state[:-1]), values),
        (replace(before, state=before.state * np.nan), values),
        (
            replace(before, images={**before.images, first: np.zeros((4, 4, 3), np.uint8)}),
            rf"{first}.*\[{height}, {width}, 3\].*\[4, 4, 3\]",
        ),
    ]
    for history, words in bad:
        with pytest.raises(PolicyError, match=words):
            policy.infer(replace(moment, history=(history,)))


def test_the_published_size_builds():
    config = DiffusionConfig(
        cameras=("observation.image",),
        image_shape=(96, 96),
        state_dim=2,
        env_dim=0,
        action_dim=2,
        horizon=16,
        n_action_steps=8,
        crop_shape=(84, 84),
        use_group_norm=True,
        use_separate_rgb_encoder_per_camera=False,
    )
    with torch.device("meta"):
        model = DiffusionModel(config)
    # What LeRobot prints as num_learnable_params for its diffusion_pusht.
    assert sum(p.numel() for p in model.parameters()) == 262_709_026


def test_the_last_block_keeps_eight_groups_whatever_n_groups_says():
    config = DiffusionConfig(
        cameras=(), image_shape=None, state_dim=2, env_dim=3, action_dim=2, n_groups=4
    )
    with torch.device("meta"):
        unet = DiffusionModel(config).unet
    groups = {n: m.num_groups for n, m in unet.named_modules() if hasattr(m, "num_groups")}
    assert groups.pop("final_conv.0.block.1") == 8
    assert set(groups.values()) == {4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vision_backbone": "vit"}, "vision_backbone is 'vit'.*resnet18"),
        ({"noise_scheduler_type": "PNDM"}, "noise_scheduler_type is 'PNDM'.*DDIM"),
        ({"prediction_type": "velocity"}, "prediction_type is 'velocity'.*epsilon"),
        ({"beta_schedule": "cosine"}, "beta_schedule is 'cosine'.*squaredcos_cap_v2"),
        ({"num_inference_steps": 200}, r"num_inference_steps is 200.*1\.\.100"),
        (
            {"num_inference_steps": 0},
            "num_inference_steps: expected a whole number from 1 to .* found 0",
        ),
        ({"n_obs_steps": 0}, "n_obs_steps: expected a whole number from 1 to .* found 0"),
        ({"horizon": 0}, "horizon: expected a whole number from 1 to .* found 0"),
        ({"horizon": 10}, "horizon 10 must be a multiple of 8"),
        ({"n_action_steps": 16}, r"n_action_steps 16 must be 1\.\.15"),
        ({"crop_shape": [50, 50]}, "crop.*does not fit"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, words):
    given = {"horizon": 16, "n_action_steps": 8, **change}
    with pytest.raises(PolicyError, match=words):
        DiffusionConfig.parse(
            given,
            "config.json",
            cameras=("top",),
            image_shape=(40, 56),
            state_dim=7,
            env_dim=0,
            action_dim=7,
        )


def test_weights_of_a_compiled_network_are_the_same_weights(tmp_path):
    """LeRobot's ``compile_model`` wraps the U-Net, which names its weights anew."""
    root = shutil.copytree(GOLDEN / "diffusion", tmp_path / "diffusion")
    weights = load_file(root / "model.safetensors")
    unet = "diffusion.unet."
    renamed = {k.replace(unet, f"{unet}_orig_mod."): v for k, v in weights.items()}
    assert renamed.keys() != weights.keys()
    save_file(renamed, root / "model.safetensors")
    model, plain = (load_policy(r).adapter.model for r in (root, GOLDEN / "diffusion"))
    for name, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
