# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Write a trained GR00T N1.7 as Isaac-GR00T lays a checkpoint out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from phyai_ros.sim.kinematics import ARM_JOINTS, FINGER_JOINT
from phyai_ros.sim.scene import CAMERAS
from tools.train.gr00t_backbone import BackboneSize
from tools.train.gr00t_head import HeadSize
from tools.train.images import image_settings
from tools.train.statistics import describe
from tools.train.text import save_tokenizer

if TYPE_CHECKING:
    from tools.train.dataset import Dataset
    from tools.train.families import Gr00tFamily
    from tools.train.gr00t import Gr00t

TAG = "ur10e_sim"
STEPS = 4
ARM, GRIPPER, TASK = "arm", "gripper", "annotation.human.task_description"


def write(model: Gr00t, family: Gr00tFamily, data: Dataset, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors(model), directory / "model.safetensors", metadata={"format": "pt"})
    _json(directory / "config.json", config(model.size, model.head_size))
    _json(directory / "architecture.json", architecture(model.size, family))
    _json(directory / "preprocessor_config.json", image_processor(model.size))
    _json(directory / "processor_config.json", processor(model.size, model.head_size))
    _json(directory / "statistics.json", {TAG: statistics(family, data)})
    _json(directory / "embodiment_id.json", {TAG: 0})
    save_tokenizer(family.tokenizer, directory)


def tensors(model: Gr00t) -> dict[str, Tensor]:
    """Weights by the reference's names, rounded to bfloat16."""
    found: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if name.startswith("probe"):
            continue
        if name.startswith("backbone."):
            name = "backbone.model.model." + name.removeprefix("backbone.")
        if name.endswith("patch_embed.proj.weight"):
            # The image fills both temporal slots, so each takes half of the weight.
            p = model.size.patch
            value = (value / 2).view(-1, 3, 1, p, p).expand(-1, -1, 2, -1, -1)
        found[name] = value.detach().cpu().to(torch.bfloat16).contiguous()
    # Part of the layout; the features are taken before this norm.
    norm = torch.ones(model.size.hidden, dtype=torch.bfloat16)
    found["backbone.model.model.language_model.norm.weight"] = norm
    return found


def read(directory: Path) -> dict[str, Tensor]:
    """The weights of a written checkpoint by the training module's names, float32."""
    found = {}
    for name, value in load_file(directory / "model.safetensors").items():
        if name.endswith("patch_embed.proj.weight"):
            value = value.float().sum(2).flatten(1)
        if not name.endswith("language_model.norm.weight"):
            found[name.replace("backbone.model.model.", "backbone.")] = value.float()
    return found


def statistics(family: Gr00tFamily, data: Dataset) -> dict[str, Any]:
    """Per modality key; relative actions have one row a time step."""
    state, chunk = data.raw_state, data.raw_chunk
    moved = family.relative(chunk, state)[..., :6]

    def entry(values: Tensor, axes: tuple[int, ...]) -> dict[str, list[Any]]:
        known = ("min", "max", "mean", "std", "q01", "q99")
        return {k: v.tolist() for k, v in describe(values, axes).items() if k in known}

    return {
        "state": {ARM: entry(state[:, :6], (0,)), GRIPPER: entry(state[:, 6:], (0,))},
        "action": {ARM: entry(chunk[..., :6], (0, 1)), GRIPPER: entry(chunk[..., 6:], (0, 1))},
        "relative_action": {ARM: entry(moved, (0,))},
    }


def config(size: BackboneSize, head: HeadSize) -> dict[str, Any]:
    image = [size.image, size.image]
    return {
        "architectures": ["Gr00tN1d7"],
        "model_type": "Gr00tN1d7",
        "dtype": "bfloat16",
        "model_dtype": "bfloat16",
        "backbone_model_type": "qwen",
        "model_name": "ur10e-small",
        "model_revision": None,
        "select_layer": size.layers,
        "backbone_embedding_dim": size.hidden,
        "input_embedding_dim": head.inner,
        "hidden_size": head.hidden,
        "action_horizon": head.horizon,
        "max_action_dim": head.action,
        "max_state_dim": head.state,
        "state_history_length": 1,
        "max_num_embodiments": head.embodiments,
        "max_seq_len": head.positions,
        "num_inference_timesteps": STEPS,
        "num_timestep_buckets": 1000,
        "noise_beta_alpha": 1.5,
        "noise_beta_beta": 1.0,
        "noise_s": 0.999,
        "add_pos_embed": True,
        "use_vlln": True,
        "use_alternate_vl_dit": True,
        "attend_text_every_n_blocks": 2,
        "exclude_state": False,
        "reproject_vision": False,
        "apply_sincos_state_encoding": False,
        "formalize_language": True,
        "use_relative_action": True,
        "use_mean_std": False,
        "use_percentiles": False,
        "image_crop_size": image,
        "image_target_size": image,
        "shortest_image_edge": None,
        "crop_fraction": None,
        "use_albumentations_transforms": False,
        "random_rotation_angle": None,
        "color_jitter_params": None,
        "rtc_ramp_rate": 6.0,
        "state_dropout_prob": 0.0,
        "attn_dropout": 0.0,
        "diffusion_model_cfg": {
            "attention_head_dim": head.inner // head.heads,
            "num_attention_heads": head.heads,
            "num_layers": head.layers,
            "output_dim": head.output,
            "dropout": 0.0,
            "final_dropout": True,
            "interleave_self_attention": True,
            "norm_type": "ada_norm",
            "positional_embeddings": None,
        },
        "vl_self_attention_cfg": {
            "attention_head_dim": head.backbone // head.vl_heads,
            "num_attention_heads": head.vl_heads,
            "num_layers": head.vl_layers,
            "dropout": 0.0,
            "final_dropout": True,
            "positional_embeddings": None,
        },
    }


def architecture(size: BackboneSize, family: Gr00tFamily) -> dict[str, Any]:
    """Sizes that a published checkpoint implies by its backbone's name."""
    token = family.tokenizer.token_to_id
    return {
        "note": "Sizes of the backbone, which a published checkpoint implies by model_name.",
        "backbone": {
            "image_token_id": token("<|image_pad|>"),
            "video_token_id": token("<|video_pad|>"),
            "vision_start_token_id": token("<|vision_start|>"),
            "vision_end_token_id": token("<|vision_end|>"),
            "tie_word_embeddings": True,
            "text_config": {
                "hidden_size": size.hidden,
                "intermediate_size": size.mlp,
                "num_hidden_layers": size.layers,
                "num_attention_heads": size.heads,
                "num_key_value_heads": size.kv_heads,
                "head_dim": size.head_dim,
                "vocab_size": size.vocab,
                "rms_norm_eps": 1e-6,
                "rope_theta": size.theta,
                "rope_scaling": {
                    "mrope_interleaved": True,
                    "rope_type": "default",
                    "mrope_section": list(size.sections),
                },
            },
            "vision_config": {
                "depth": size.vision_depth,
                "hidden_size": size.vision_hidden,
                "intermediate_size": size.vision_mlp,
                "num_heads": size.vision_heads,
                "num_position_embeddings": size.grid**2,
                "out_hidden_size": size.hidden,
                "deepstack_visual_indexes": list(size.deepstack),
                "patch_size": size.patch,
                "spatial_merge_size": size.merge,
                "temporal_patch_size": 2,
                "in_channels": 3,
                "hidden_act": "gelu_pytorch_tanh",
            },
        },
    }


def image_processor(size: BackboneSize) -> dict[str, Any]:
    return {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "patch_size": size.patch,
        "temporal_patch_size": 2,
        "merge_size": size.merge,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "size": {"shortest_edge": size.image**2, "longest_edge": 16777216},
    }


def processor(size: BackboneSize, head: HeadSize) -> dict[str, Any]:
    plain = {"type": "NON_EEF", "format": "DEFAULT", "state_key": None}
    return {
        "processor_class": "Gr00tN1d7Processor",
        "processor_kwargs": {
            "modality_configs": {
                TAG: {
                    "video": {"delta_indices": [0], "modality_keys": list(CAMERAS)},
                    "state": {"delta_indices": [0], "modality_keys": [ARM, GRIPPER]},
                    "action": {
                        "delta_indices": list(range(head.horizon)),
                        "modality_keys": [ARM, GRIPPER],
                        "action_configs": [
                            {"rep": "RELATIVE", **plain},
                            {"rep": "ABSOLUTE", **plain},
                        ],
                    },
                    "language": {"delta_indices": [0], "modality_keys": [TASK]},
                }
            },
            "max_state_dim": head.state,
            "max_action_dim": head.action,
            "max_action_horizon": head.horizon,
            "model_name": "ur10e-small",
            "model_type": "qwen",
            "use_percentiles": False,
            "use_mean_std": False,
            "clip_outliers": True,
            "apply_sincos_state_encoding": False,
            "use_relative_action": True,
            "formalize_language": True,
            "exclude_state": False,
            "state_dropout_prob": 0.0,
            "random_rotation_angle": None,
            "color_jitter_params": None,
            **image_settings(size.image),
            "joint_names": [*ARM_JOINTS, FINGER_JOINT],
            "action_step": 0.05,
        },
    }


def _json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
