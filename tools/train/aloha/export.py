# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Write a trained small ACT as LeRobot's ``save_pretrained`` lays a checkpoint out.

Two things go beyond LeRobot's own ACT: the ResNet's width is the weights' (LeRobot builds
torchvision's 64 channels), and the pipeline has steps that LeRobot has but its ACT does not use,
``image_crop_resize_processor`` and the relative-action pair.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.sim.aloha.kinematics import JOINTS
from tools.train.aloha.data import Dataset
from tools.train.aloha.demonstrations import SIZE
from tools.train.aloha.policy import MEAN, STD, Trainee

NORMS = {"VISUAL": "MEAN_STD", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"}
ABSOLUTE = ["left_", "gripper"]
"""Words in the names of the columns that are not relative."""


def write(model: Trainee, data: Dataset, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    c = model.policy.config
    weights = {
        f"model.{k}": _stored(k, v)
        for k, v in model.policy.state_dict().items()
        if not k.endswith("num_batches_tracked")
    }
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    _json(directory / "config.json", config(c))
    found = {
        f"{feature}.{name}": value.cpu().contiguous()
        for feature, moments in data.statistics.items()
        for name, value in zip(("mean", "std"), moments, strict=True)
    }
    for camera in c.cameras:
        found[f"{camera}.mean"] = torch.tensor(MEAN).view(3, 1, 1)
        found[f"{camera}.std"] = torch.tensor(STD).view(3, 1, 1)
    before, after = (
        f"policy_{kind}_step_{i}_{name}_processor.safetensors"
        for kind, i, name in (
            ("preprocessor", 4, "normalizer"),
            ("postprocessor", 0, "unnormalizer"),
        )
    )
    save_file(found, directory / before)
    save_file({k: v for k, v in found.items() if k.startswith("action.")}, directory / after)
    inputs, outputs = _features(c)
    _json(directory / "policy_preprocessor.json", preprocessor(before, inputs | outputs))
    _json(directory / "policy_postprocessor.json", postprocessor(after, outputs))


def _stored(name: str, value: torch.Tensor) -> torch.Tensor:
    """bfloat16, but for batch norms: they divide by the root of what they hold."""
    norm = name.startswith("backbone") and value.dim() == 1
    return value.detach().to("cpu", torch.float32 if norm else torch.bfloat16).contiguous()


def _features(c: ActConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    inputs: dict[str, Any] = {
        camera: {"type": "VISUAL", "shape": [3, *SIZE]} for camera in c.cameras
    }
    inputs["observation.state"] = {"type": "STATE", "shape": [len(JOINTS)]}
    return inputs, {"action": {"type": "ACTION", "shape": [len(JOINTS)]}}


def config(c: ActConfig) -> dict[str, Any]:
    inputs, outputs = _features(c)
    return {
        "type": "act",
        "n_obs_steps": 1,
        "input_features": inputs,
        "output_features": outputs,
        "device": "cpu",
        "use_amp": False,
        "chunk_size": c.chunk_size,
        "n_action_steps": c.n_action_steps,
        "normalization_mapping": NORMS,
        "vision_backbone": c.vision_backbone,
        "pretrained_backbone_weights": None,
        "replace_final_stride_with_dilation": False,
        "pre_norm": c.pre_norm,
        "dim_model": c.dim_model,
        "n_heads": c.n_heads,
        "dim_feedforward": c.dim_feedforward,
        "feedforward_activation": c.feedforward_activation,
        "n_encoder_layers": c.n_encoder_layers,
        "n_decoder_layers": c.n_decoder_layers,
        "use_vae": False,
        "latent_dim": c.latent_dim,
        "temporal_ensemble_coeff": None,
    }


def preprocessor(statistics: str, features: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "policy_preprocessor",
        "steps": [
            {"registry_name": "rename_observations_processor", "config": {"rename_map": {}}},
            {"registry_name": "to_batch_processor", "config": {}},
            {
                "registry_name": "image_crop_resize_processor",
                "config": {"crop_params_dict": {}, "resize_size": list(SIZE)},
            },
            {
                "registry_name": "relative_actions_processor",
                "config": {
                    "enabled": True,
                    "exclude_joints": ABSOLUTE,
                    "action_names": list(JOINTS),
                },
            },
            {
                "registry_name": "normalizer_processor",
                "config": {"eps": 1e-8, "features": features, "norm_map": NORMS},
                "state_file": statistics,
            },
            {"registry_name": "device_processor", "config": {"device": "cpu", "float_dtype": None}},
        ],
    }


def postprocessor(statistics: str, outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "policy_postprocessor",
        "steps": [
            {
                "registry_name": "unnormalizer_processor",
                "config": {"eps": 1e-8, "features": outputs, "norm_map": NORMS},
                "state_file": statistics,
            },
            {"registry_name": "absolute_actions_processor", "config": {"enabled": True}},
            {"registry_name": "device_processor", "config": {"device": "cpu", "float_dtype": None}},
        ],
    }


def _json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
