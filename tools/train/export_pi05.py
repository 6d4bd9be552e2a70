# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Write a trained pi0.5 as LeRobot's ``save_pretrained`` lays a checkpoint out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from phyai_ros.engine.models.paligemma.config import describe as describe_sizes
from phyai_ros.engine.models.paligemma.keys import canonical, checkpoint_tensors, key_table
from phyai_ros.sim.kinematics import JOINTS
from phyai_ros.sim.scene import CAMERAS
from tools.train.statistics import Range, describe

if TYPE_CHECKING:
    from tools.train.dataset import Dataset
    from tools.train.families import Pi05Family
    from tools.train.pi05 import Pi05Trainee

PICTURE = (3, 240, 320)
HEADS = {
    "action_in_proj": "action_in",
    "action_out_proj": "action_out",
    "time_mlp_in": "time_in",
    "time_mlp_out": "time_out",
}
NORMS = {"VISUAL": "IDENTITY", "STATE": "QUANTILES", "ACTION": "QUANTILES"}
GRIPPER = "finger_joint"
MAX_TOKENS = 32
"""As long as the longest prompts of training. The engine warns when it has to cut one."""


def write(model: Pi05Trainee, family: Pi05Family, data: Dataset, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    table = key_table(family.config, HEADS, adaptive=True)
    weights = {
        k: v.to("cpu", torch.bfloat16).contiguous()
        for k, v in checkpoint_tensors(model.policy, table).items()
    }
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    _json(directory / "config.json", config(family))
    _json(directory / "architecture.json", describe_sizes(family.config))
    found = {
        k: torch.from_numpy(np.asarray(v, np.float32)) for k, v in statistics(family, data).items()
    }
    normaliser, restorer = (
        f"policy_{kind}_step_{i}_{name}_processor.safetensors"
        for kind, i, name in (
            ("preprocessor", 3, "normalizer"),
            ("postprocessor", 0, "unnormalizer"),
        )
    )
    save_file(found, directory / normaliser)
    save_file(found, directory / restorer)
    _json(directory / "policy_preprocessor.json", preprocessor(normaliser))
    _json(directory / "policy_postprocessor.json", postprocessor(restorer))
    family.tokenizer.save(str(directory / "tokenizer.json"))
    _json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "TokenizersBackend",
            "backend": "tokenizers",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "padding_side": "right",
        },
    )


def read(model: Pi05Trainee, directory: Path) -> None:
    """A checkpoint's weights into a trainee of the same sizes."""
    table = key_table(model.policy.config, HEADS, adaptive=True)
    parameters = dict(model.policy.named_parameters())
    with torch.no_grad():
        for key, value in load_file(directory / "model.safetensors").items():
            name, start, count = table[canonical(key)]
            stop = None if count is None else start + count
            parameters[name][start:stop] = value.float()


def statistics(family: Pi05Family, data: Dataset) -> dict[str, np.ndarray]:
    """q01 and q99 are what training normalised with: the extremes of its demonstrations, or of
    those of the training that it went on from."""
    moved = family.relative(data.raw_chunk, data.raw_state)
    found = {}
    for feature, values, axes in (
        ("observation.state", data.raw_state, (0,)),
        ("action", moved, tuple(range(moved.ndim - 1))),
    ):
        for name, value in describe(values, axes).items():
            found[f"{feature}.{name}"] = value
    for feature, used in (("observation.state", family.state), ("action", family.chunk)):
        found[f"{feature}.q01"] = used.low.double().cpu().numpy()
        found[f"{feature}.q99"] = used.high.double().cpu().numpy()
    return found


def ranges(directory: Path) -> tuple[Range, Range]:
    """A checkpoint's ranges of state and action."""
    (file,) = directory.glob("policy_preprocessor_step_*_normalizer_processor.safetensors")
    found = load_file(file)
    state, action = (
        Range(found[f"{feature}.q01"], found[f"{feature}.q99"])
        for feature in ("observation.state", "action")
    )
    return state, action


def _features() -> tuple[dict[str, Any], dict[str, Any]]:
    inputs: dict[str, Any] = {
        f"observation.images.{c}": {"type": "VISUAL", "shape": list(PICTURE)} for c in CAMERAS
    }
    inputs["observation.state"] = {"type": "STATE", "shape": [len(JOINTS)]}
    return inputs, {"action": {"type": "ACTION", "shape": [len(JOINTS)]}}


def config(family: Pi05Family) -> dict[str, Any]:
    inputs, outputs = _features()
    c = family.config
    trained = {"rtc_training_max_delay": c.trained_delay} if c.trained_delay else {}
    return {
        "type": "pi05",
        "n_obs_steps": 1,
        "input_features": inputs,
        "output_features": outputs,
        "device": "cpu",
        "dtype": "float32",
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
        "chunk_size": c.horizon,
        "n_action_steps": c.horizon,
        "max_state_dim": c.state_width,
        "max_action_dim": c.action_width,
        "num_inference_steps": c.denoising_steps,
        "time_sampling_beta_alpha": 1.5,
        "time_sampling_beta_beta": 1.0,
        "time_sampling_scale": 0.999,
        "time_sampling_offset": 0.001,
        "min_period": c.min_period,
        "max_period": c.max_period,
        "use_relative_actions": True,
        "relative_exclude_joints": [GRIPPER],
        "action_feature_names": list(JOINTS),
        "rtc_config": None,
        **trained,
        "image_resolution": [c.vision.image_size] * 2,
        "empty_cameras": 0,
        "tokenizer_max_length": MAX_TOKENS,
        "normalization_mapping": NORMS,
    }


def preprocessor(statistics_file: str) -> dict[str, Any]:
    inputs, outputs = _features()
    return {
        "name": "policy_preprocessor",
        "steps": [
            {"registry_name": "rename_observations_processor", "config": {"rename_map": {}}},
            {"registry_name": "to_batch_processor", "config": {}},
            {
                "registry_name": "relative_actions_processor",
                "config": {
                    "enabled": True,
                    "exclude_joints": [GRIPPER],
                    "action_names": list(JOINTS),
                },
            },
            {
                "registry_name": "normalizer_processor",
                "config": {"eps": 1e-8, "features": inputs | outputs, "norm_map": NORMS},
                "state_file": statistics_file,
            },
            {"registry_name": "pi05_prepare_state_tokenizer_processor_step", "config": {}},
            {
                "registry_name": "tokenizer_processor",
                "config": {
                    "max_length": MAX_TOKENS,
                    "task_key": "task",
                    "padding_side": "right",
                    "padding": "max_length",
                    "truncation": True,
                    "tokenizer_name": "ur10e-small",
                },
            },
            {"registry_name": "device_processor", "config": {"device": "cpu", "float_dtype": None}},
        ],
    }


def postprocessor(statistics_file: str) -> dict[str, Any]:
    _, outputs = _features()
    return {
        "name": "policy_postprocessor",
        "steps": [
            {
                "registry_name": "unnormalizer_processor",
                "config": {"eps": 1e-8, "features": outputs, "norm_map": NORMS},
                "state_file": statistics_file,
            },
            {"registry_name": "absolute_actions_processor", "config": {"enabled": True}},
            {"registry_name": "device_processor", "config": {"device": "cpu", "float_dtype": None}},
        ],
    }


def _json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
