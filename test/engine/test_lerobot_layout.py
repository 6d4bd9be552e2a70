# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Reading LeRobot's save_pretrained layout, and refusing what is wrong with it by name."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from phyai_ros.engine.models.lerobot import read_layout
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools import check_inputs

GOLDEN = Path(
    os.environ.get("PHYAI_GOLDEN", Path(__file__).resolve().parents[3] / "shared" / "golden")
)
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden fixtures at {GOLDEN}")


@pytest.fixture
def act(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "act", tmp_path / "act"))


def edit(file: Path, change) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def test_the_parts_of_the_state_keep_their_order_and_modes() -> None:
    layout = read_layout(GOLDEN / "act")
    assert layout.cameras == ("observation.images.top", "observation.images.wrist")
    state = layout.state_specs()
    assert [(f.name, f.size, f.normalisation) for f in state] == [
        ("observation.state", 7, "MEAN_STD"),
        ("observation.environment_state", 3, "IDENTITY"),
    ]
    raw = load_file(GOLDEN / "act/policy_preprocessor_step_3_normalizer_processor.safetensors")
    np.testing.assert_array_equal(state[0].statistics["std"], raw["observation.state.std"])


def test_named_columns_split_the_action_and_exclude_by_name(act: Path) -> None:
    names = ["j0.pos", "j1.pos", "j2.pos", "j3.pos", "j4.pos", "j5.pos", "Gripper.pos"]

    def add(content):
        content["steps"].insert(
            2,
            {
                "registry_name": "relative_actions_processor",
                "config": {"enabled": True, "exclude_joints": ["gripper"], "action_names": names},
            },
        )

    whole = read_layout(act).action_specs()[0]
    edit(act / "policy_preprocessor.json", add)
    columns = read_layout(act).action_specs()
    assert [c.name for c in columns] == names
    assert [c.relative for c in columns] == [True] * 6 + [False]
    np.testing.assert_array_equal(
        np.concatenate([c.statistics["mean"] for c in columns]), whole.statistics["mean"]
    )


def test_a_disabled_relative_step_makes_nothing_relative() -> None:
    assert read_layout(GOLDEN / "pi0").relative_mask() == (False,) * 7


def _drop_config(directory: Path) -> None:
    (directory / "config.json").unlink()


def _drop_statistics_file(directory: Path) -> None:
    (directory / "policy_preprocessor_step_3_normalizer_processor.safetensors").unlink()


def _truncate_statistics_file(directory: Path) -> None:
    file = directory / "policy_preprocessor_step_3_normalizer_processor.safetensors"
    file.write_bytes(file.read_bytes()[:100])


def _point_at_statistics_file(directory: Path) -> None:
    file = directory / "policy_preprocessor_step_3_normalizer_processor.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n")


def _statistics(directory: Path, change) -> None:
    file = directory / "policy_preprocessor_step_3_normalizer_processor.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def _statistics_from_outside(directory: Path) -> None:
    name = "policy_preprocessor_step_3_normalizer_processor.safetensors"
    (directory / name).rename(directory.parent / name)
    edit(
        directory / "policy_preprocessor.json",
        lambda c: c["steps"][3].update(state_file=f"../{name}"),
    )


def _drop_statistic(directory: Path) -> None:
    _statistics(directory, lambda t: t.pop("observation.state.std"))


def _rename_statistic(directory: Path) -> None:
    _statistics(directory, lambda t: t.update({"state.std": t.pop("observation.state.std")}))


def _shorten_statistic(directory: Path) -> None:
    _statistics(
        directory, lambda t: t.update({"observation.state.std": t["observation.state.std"][:5]})
    )


def _nan_statistic(directory: Path) -> None:
    _statistics(
        directory,
        lambda t: t.update({"observation.state.std": np.full(7, np.nan, dtype=np.float32)}),
    )


def _unknown_mode(directory: Path) -> None:
    edit(
        directory / "policy_preprocessor.json",
        lambda c: c["steps"][3]["config"]["norm_map"].update(STATE="MEDIAN"),
    )


def _no_normalizer(directory: Path) -> None:
    edit(directory / "policy_preprocessor.json", lambda c: c["steps"].pop(3))


def _bad_shape(directory: Path) -> None:
    edit(
        directory / "config.json",
        lambda c: c["input_features"]["observation.state"].update(shape=[7, 1]),
    )


def _channels_last(directory: Path) -> None:
    edit(
        directory / "config.json",
        lambda c: c["input_features"]["observation.images.top"].update(shape=[64, 96, 3]),
    )


def _broken_json(directory: Path) -> None:
    (directory / "policy_postprocessor.json").write_text("{")


def read_everything(directory: Path) -> None:
    layout = read_layout(directory)
    assert layout.camera_sizes
    layout.state_specs()
    layout.action_specs()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_drop_config, ["config.json", "no such file", "model.safetensors"]),
        (_drop_statistics_file, ["step_3_normalizer", "no such file", "policy_preprocessor.json"]),
        (_statistics_from_outside, ["policy_preprocessor.json", "'../policy_p", "plain name"]),
        (_truncate_statistics_file, ["step_3_normalizer", "not readable as safetensors"]),
        (_point_at_statistics_file, ["step_3_normalizer", "a Git LFS pointer", "git lfs pull"]),
        (_drop_statistic, ["step_3_normalizer", "observation.state.std", "MEAN_STD"]),
        (_rename_statistic, ["observation.state.std is absent", "'state.std'"]),
        (_shorten_statistic, ["observation.state.std has 5 values", "has 7"]),
        (_nan_statistic, ["observation.state.std", "not finite"]),
        (_unknown_mode, ["policy_preprocessor.json: norm_map[STATE]", "MEDIAN", "QUANTILES"]),
        (_no_normalizer, ["normalizer_processor", "to_batch_processor"]),
        (_bad_shape, ["observation.state", "[7, 1]"]),
        (_channels_last, ["observation.images.top.shape", "[3, height, width]", "[64, 96, 3]"]),
        (_broken_json, ["policy_postprocessor.json", "not valid JSON"]),
    ],
)
def test_a_refusal_names_file_key_expected_and_found(act: Path, damage, words) -> None:
    damage(act)
    with pytest.raises(PolicyError) as refusal:
        read_everything(act)
    for word in words:
        assert word in str(refusal.value)


def make_legacy(directory: Path) -> None:
    """What LeRobot wrote before its processor files: statistics as buffers of the weights."""
    weights = load_file(directory / "model.safetensors")
    for side, pattern in (
        ("normalize_inputs", "*_normalizer_processor.safetensors"),
        ("normalize_targets", "*_normalizer_processor.safetensors"),
        ("unnormalize_outputs", "*_unnormalizer_processor.safetensors"),
    ):
        (file,) = directory.glob(pattern)
        for key, value in load_file(file).items():
            if key.startswith("observation") == (side == "normalize_inputs"):
                feature, statistic = key.rsplit(".", 1)
                weights[f"{side}.buffer_{feature.replace('.', '_')}.{statistic}"] = value
    save_file(weights, directory / "model.safetensors")
    for file in directory.glob("policy_p*"):
        file.unlink()


@pytest.mark.parametrize("fixture", ["act", "diffusion"])
def test_a_checkpoint_with_its_statistics_among_the_weights_is_the_same_policy(tmp_path, fixture):
    old = Path(shutil.copytree(GOLDEN / fixture, tmp_path / fixture))
    make_legacy(old)
    new, legacy = load_policy(GOLDEN / fixture), load_policy(old)
    (observation,) = check_inputs.observations(new.spec, 1)
    noise = check_inputs.noise(new, 1)
    np.testing.assert_array_equal(
        legacy.infer_batch([observation], noise)[0].actions,
        new.infer_batch([observation], noise)[0].actions,
    )


def test_such_a_checkpoint_without_one_statistic_is_refused_by_name(act: Path) -> None:
    make_legacy(act)
    weights = load_file(act / "model.safetensors")
    del weights["normalize_inputs.buffer_observation_state.std"]
    save_file(weights, act / "model.safetensors")
    with pytest.raises(PolicyError, match=r"model\.safetensors.*observation\.state\.std is absent"):
        read_everything(act)


def edited(tmp_path, fixture, file, edit):
    root = tmp_path / fixture
    shutil.copytree(GOLDEN / fixture, root)
    content = json.loads((root / file).read_text())
    edit(content["steps"])
    (root / file).write_text(json.dumps(content))
    return root


@pytest.mark.parametrize("fixture", ["diffusion", "pi05", "smolvla"])
@pytest.mark.parametrize("file", ["policy_preprocessor.json", "policy_postprocessor.json"])
def test_a_step_that_is_not_done_here_is_refused(tmp_path, fixture, file):
    """ACT alone crops in a step of its own."""
    step = {"registry_name": "image_crop_resize_processor", "config": {"resize_size": [32, 32]}}
    root = edited(tmp_path, fixture, file, lambda steps: steps.insert(0, step))
    with pytest.raises(PolicyError, match=f"{file}: step 'image_crop_resize_processor' is not sup"):
        load_policy(root)


def test_observations_that_the_normaliser_leaves_out_are_not_normalised(tmp_path):
    """LeRobot's normalize_observation_keys: the other observations pass as they are."""

    def leave_out(steps):
        (step,) = [s for s in steps if s["registry_name"] == "normalizer_processor"]
        step["config"]["normalize_observation_keys"] = ["observation.images.top"]

    policy = load_policy(edited(tmp_path, "act", "policy_preprocessor.json", leave_out))
    (given,) = check_inputs.observations(policy.spec, 1)
    state = policy.adapter.prepare([given]).state
    np.testing.assert_array_equal(state[0], given.state[: state.shape[1]].astype(np.float32))
    before = load_policy(GOLDEN / "act").adapter.prepare([given])
    after = policy.adapter.prepare([given])
    assert torch.equal(after.images[0], before.images[0])
    assert not torch.equal(after.images[1], before.images[1])


@pytest.mark.parametrize("fixture", ["act", "diffusion", "pi05", "smolvla"])
def test_weights_that_an_adapter_belongs_to_are_refused(tmp_path, fixture):
    """Alone they are another policy."""
    root = Path(shutil.copytree(GOLDEN / fixture, tmp_path / fixture))
    edit(root / "config.json", lambda c: c.update(use_peft=True))
    with pytest.raises(PolicyError, match=r"config.json: use_peft is True: .*merge it into them"):
        load_policy(root)
