# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Checkpoints of every layout with random weights and dimensions, names and counts that no golden
fixture has. Only the tokenizers are borrowed, from the embedded policies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.models.act.model import ActModel
from phyai_ros.engine.models.diffusion.config import DiffusionConfig
from phyai_ros.engine.models.diffusion.model import DiffusionModel
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.model import GrootModel
from phyai_ros.engine.models.paligemma import config as flow
from phyai_ros.engine.models.paligemma.family import FlowFamily
from phyai_ros.engine.models.paligemma.keys import checkpoint_tensors
from phyai_ros.engine.models.pi0.adapter import FAMILY as PI0
from phyai_ros.engine.models.pi05.adapter import FAMILY as PI05
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import SmolVlaModel

EMBEDDED = Path(__file__).resolve().parents[2] / "phyai_ros" / "checkpoints"


def random(make: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """A model whose every tensor is random, with activations near one."""
    with torch.device("meta"):
        model = make(config)
    model = model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if not value.is_floating_point():
                value.zero_()
            elif name.endswith("running_var"):
                value.uniform_(0.5, 1.5, generator=generator)
            elif value.ndim < 2:
                value.normal_(1.0 if name.endswith("weight") else 0.0, 0.1, generator=generator)
            else:
                value.normal_(0.0, value[0].numel() ** -0.5, generator=generator)
    return model


def dump(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content))


def save(root: Path, weights: Mapping[str, torch.Tensor]) -> None:
    whole = {key: value.contiguous() for key, value in weights.items()}
    save_file(whole, root / "model.safetensors")


def lerobot(
    root: Path,
    config: dict[str, Any],
    cameras: Mapping[str, tuple[int, int]],
    vectors: Mapping[str, int],
    modes: Mapping[str, str],
    before: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """config.json and the processor files. vectors: state features' sizes, and ``action``'s."""
    images = {k: {"type": "VISUAL", "shape": [3, *size]} for k, size in cameras.items()}
    states = {k: {"type": "STATE", "shape": [n]} for k, n in vectors.items() if k != "action"}
    action = {"action": {"type": "ACTION", "shape": [vectors["action"]]}}
    whole = {**config, "input_features": {**images, **states}, "output_features": action}
    dump(root / "config.json", whole)
    statistics = {}
    generator = torch.Generator().manual_seed(5)
    for key, shape in ({**vectors} | dict.fromkeys(cameras, (3, 1, 1))).items():
        middle = torch.randn(shape, generator=generator)
        for name, shift in (("min", -2.0), ("q01", -1.5), ("mean", 0.0), ("q99", 1.5), ("max", 2)):
            statistics[f"{key}.{name}"] = middle + shift
        statistics[f"{key}.std"] = torch.rand(shape, generator=generator) + 0.5
    save_file(statistics, root / "statistics.safetensors")
    for file, name, others in (
        ("policy_preprocessor.json", "normalizer_processor", before),
        ("policy_postprocessor.json", "unnormalizer_processor", ()),
    ):
        step = {"registry_name": name, "config": {"norm_map": dict(modes)}}
        steps = [*others, {**step, "state_file": "statistics.safetensors"}]
        dump(root / file, {"name": "policy", "steps": steps})
    return whole


def tokenizer_step(length: int) -> dict[str, Any]:
    return {"registry_name": "tokenizer_processor", "config": {"max_length": length}}


FLOW = flow.FlowConfig(
    flow.SiglipConfig(24, 3, 40, 3, 6, 30),
    flow.GemmaConfig(48, 4, 72, 6, 2, 8, 700),
    flow.GemmaConfig(40, 4, 56, 6, 2, 8),
    horizon=9,
    action_width=11,
    state_width=13,
    denoising_steps=3,
)


def flow_weights(root: Path, family: FlowFamily, config: flow.FlowConfig, prefix: str) -> None:
    shutil.copy(EMBEDDED / "pi05_ur10e_small" / "tokenizer.json", root)
    dump(root / "architecture.json", flow.describe(config))
    model = random(family.model, config)
    save(root, checkpoint_tensors(model, family.table(config), prefix))


def pi(family: FlowFamily) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        sizes = {
            "type": family.name, "chunk_size": 9, "max_action_dim": 11, "max_state_dim": 13,
            "num_inference_steps": 3, "image_resolution": [30, 30],
        }  # fmt: skip
        cameras = {"observation.images.ceiling": (50, 70), "observation.images.palm": (33, 44)}
        vectors = {"observation.state": 10, "action": 3}
        modes = {"STATE": "MIN_MAX", "ACTION": "QUANTILES"}
        prompt = {"registry_name": "pi05_prepare_state_tokenizer_processor_step", "config": {}}
        lerobot(root, sizes, cameras, vectors, modes, (prompt, tokenizer_step(37)))
        flow_weights(root, family, FLOW, "model.")

    return write


def openpi(family: FlowFamily) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        sizes = {"action_dim": 11, "action_horizon": 9, "num_steps": 3}
        dump(root / "config.json", {**sizes, "paligemma_variant": "gemma_2b"})
        file = root / "assets" / "someone" / "arm" / "norm_stats.json"
        file.parent.mkdir(parents=True)
        names = {"mean": 0.1, "std": 0.7, "q01": -1.1, "q99": 1.3}
        wide = {"state": 10, "actions": 4}
        statistics = {k: {n: [v] * c for n, v in names.items()} for k, c in wide.items()}
        dump(file, {"norm_stats": statistics})
        # openpi pads the state to the action's width
        flow_weights(root, family, replace(FLOW, state_width=11), "")

    return write


def smolvla(root: Path) -> None:
    sizes = {
        "type": "smolvla", "chunk_size": 5, "max_action_dim": 9, "max_state_dim": 7,
        "num_steps": 4, "num_vlm_layers": 6, "num_expert_layers": 3,
        "self_attn_every_n_layers": 2, "resize_imgs_with_padding": [48, 48],
    }  # fmt: skip
    cameras = {f"observation.images.{name}": (40, 60) for name in ("a", "b", "c", "d")}
    vectors = {"observation.state": 5, "action": 8}
    modes = {"STATE": "MIN_MAX", "ACTION": "MEAN_STD"}
    whole = lerobot(root, sizes, cameras, vectors, modes, (tokenizer_step(19),))
    architecture = {
        "vlm": {
            "text_config": {
                "hidden_size": 60, "intermediate_size": 44, "num_attention_heads": 6,
                "num_key_value_heads": 3, "head_dim": 10, "vocab_size": 640,
            },
            "vision_config": {
                "hidden_size": 36, "intermediate_size": 52, "num_hidden_layers": 3,
                "num_attention_heads": 3, "patch_size": 8, "image_size": 48,
            },
            "scale_factor": 3,
        },
        "lm_expert": {"hidden_size": 32, "intermediate_size": 88},
    }  # fmt: skip
    dump(root / "architecture.json", architecture)
    shutil.copy(EMBEDDED / "pi05_ur10e_small" / "tokenizer.json", root)
    model = random(SmolVlaModel, SmolVlaConfig.parse(whole, architecture, "test"))
    save(root, {_smolvla_key(name): value for name, value in model.state_dict().items()})


def _smolvla_key(name: str) -> str:
    if name.startswith(("text_model.", "vision_model.", "connector.")):
        return f"model.vlm_with_expert.vlm.model.{name}"
    return f"model.vlm_with_expert.{name}" if name.startswith("lm_expert.") else f"model.{name}"


def act(root: Path) -> None:
    sizes = {
        "type": "act", "chunk_size": 13, "n_action_steps": 13, "vision_backbone": "resnet34",
        "dim_model": 24, "n_heads": 3, "dim_feedforward": 20, "n_encoder_layers": 2,
        "n_decoder_layers": 3, "latent_dim": 5, "pre_norm": True,
        "feedforward_activation": "gelu",
    }  # fmt: skip
    cameras = {"observation.images.only": (70, 45)}
    vectors = {"observation.state": 4, "action": 6}
    modes = {"VISUAL": "MEAN_STD", "STATE": "MIN_MAX", "ACTION": "MIN_MAX"}
    whole = lerobot(root, sizes, cameras, vectors, modes)
    config = ActConfig.parse(
        whole, "test", cameras=tuple(cameras), state_dim=4, env_dim=0, action_dim=6,
        backbone_width=10,
    )  # fmt: skip
    model = random(ActModel, config)
    save(root, {f"model.{name}": value for name, value in model.state_dict().items()})


def diffusion(root: Path) -> None:
    sizes = {
        "type": "diffusion", "n_obs_steps": 3, "horizon": 24, "n_action_steps": 5,
        "down_dims": [8, 12], "kernel_size": 3, "n_groups": 4, "crop_shape": [30, 40],
        "diffusion_step_embed_dim": 20, "spatial_softmax_num_keypoints": 5,
        "use_film_scale_modulation": False, "noise_scheduler_type": "DDIM",
        "num_train_timesteps": 40, "num_inference_steps": 4, "prediction_type": "sample",
        "beta_schedule": "linear", "use_separate_rgb_encoder_per_camera": True,
    }  # fmt: skip
    cameras = {f"observation.images.{name}": (44, 52) for name in ("l", "m", "r")}
    vectors = {"observation.state": 2, "action": 3}
    modes = {"VISUAL": "MEAN_STD", "STATE": "MEAN_STD", "ACTION": "MIN_MAX"}
    whole = lerobot(root, sizes, cameras, vectors, modes)
    config = DiffusionConfig.parse(
        whole, "test", cameras=tuple(cameras), image_shape=(44, 52), state_dim=2, env_dim=0,
        action_dim=3,
    )  # fmt: skip
    model = random(DiffusionModel, config)
    save(root, {_diffusion_key(name): value for name, value in model.state_dict().items()})


def groot(root: Path) -> None:
    embedded = EMBEDDED / "gr00t_ur10e_small"
    for name in ("tokenizer.json", "preprocessor_config.json"):
        shutil.copy(embedded / name, root)
    config = json.loads((embedded / "config.json").read_text())
    architecture = json.loads((embedded / "architecture.json").read_text())
    text = architecture["backbone"]["text_config"]
    text.update(
        hidden_size=40, intermediate_size=56, num_hidden_layers=5, num_attention_heads=6,
        num_key_value_heads=3, head_dim=16,
    )  # fmt: skip
    text["rope_scaling"]["mrope_section"] = [4, 2, 2]
    architecture["backbone"]["vision_config"].update(
        depth=4, hidden_size=48, intermediate_size=36, num_heads=3, num_position_embeddings=36,
        out_hidden_size=40, deepstack_visual_indexes=[1, 3],
    )  # fmt: skip
    config.update(
        select_layer=4, backbone_embedding_dim=40, input_embedding_dim=30, hidden_size=28,
        action_horizon=11, max_action_dim=9, max_state_dim=8, max_num_embodiments=4,
        max_seq_len=11, num_inference_timesteps=3, num_timestep_buckets=500,
        attend_text_every_n_blocks=3, use_percentiles=True,
    )  # fmt: skip
    config["diffusion_model_cfg"].update(
        attention_head_dim=10, num_attention_heads=3, num_layers=4, output_dim=28
    )
    config["vl_self_attention_cfg"].update(
        attention_head_dim=8, num_attention_heads=5, num_layers=1
    )
    dump(root / "config.json", config)
    dump(root / "architecture.json", architecture)
    modality = {
        "video": {"delta_indices": [0], "modality_keys": ["one", "two", "three"]},
        "state": {"delta_indices": [0], "modality_keys": ["hand", "arm"]},
        "action": {
            "delta_indices": list(range(7)),
            "modality_keys": ["arm", "hand"],
            "action_configs": [
                {"rep": "RELATIVE", "type": "NON_EEF", "format": "DEFAULT", "state_key": None},
                {"rep": "ABSOLUTE", "type": "NON_EEF", "format": "DEFAULT", "state_key": None},
            ],
        },
        "language": {"delta_indices": [0], "modality_keys": ["task"]},
    }
    kwargs = {
        "modality_configs": {"our_arm": modality}, "use_percentiles": True,
        "use_relative_action": True, "image_crop_size": [60, 60], "image_target_size": [64, 64],
        "shortest_image_edge": None, "crop_fraction": None,
    }  # fmt: skip
    dump(root / "processor_config.json", {"processor_kwargs": kwargs})
    limits = {"min": -2.0, "max": 2.0, "mean": 0.0, "std": 1.0, "q01": -1.0, "q99": 1.0}

    def entry(count: int) -> dict[str, list[float]]:
        return {name: [value + 0.1 * i for i in range(count)] for name, value in limits.items()}

    both = {"arm": entry(6), "hand": entry(2)}
    statistics = {"state": both, "action": both, "relative_action": {"arm": entry(6)}}
    dump(root / "statistics.json", {"our_arm": statistics})
    dump(root / "embodiment_id.json", {"our_arm": 3})
    save(root, random(GrootModel, GrootConfig.parse(config, "test", architecture)).state_dict())


def _diffusion_key(name: str) -> str:
    """``rename`` of the family, backwards; loading proves it right."""
    for pattern, new in _DIFFUSION:
        name = re.sub(pattern, new, name)
    return f"diffusion.{name}"


_DIFFUSION = (
    (r"\.step_encoder\.widen\.", ".diffusion_step_encoder.1."),
    (r"\.step_encoder\.narrow\.", ".diffusion_step_encoder.3."),
    (r"\.modulation\.", ".cond_encoder.1."),
    (r"(_modules\.\d+)\.first\.", r"\1.0."),
    (r"(_modules\.\d+)\.second\.", r"\1.1."),
    (r"(_modules\.\d+)\.resample\.", r"\1.2."),
    (r"\.backbone\.conv1\.", ".backbone.0."),
    (r"\.backbone\.bn1\.", ".backbone.1."),
    *((rf"\.backbone\.layer{i}\.", f".backbone.{i + 3}.") for i in (1, 2, 3, 4)),
)

LAYOUTS: Mapping[str, Callable[[Path], None]] = {
    "pi0": pi(PI0), "pi05": pi(PI05), "pi0_openpi": openpi(PI0), "pi05_openpi": openpi(PI05),
    "smolvla": smolvla, "act": act, "diffusion": diffusion, "gr00t_n17": groot,
}  # fmt: skip
