# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which of GR00T's two checkpoint layouts this is, and its dimensions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phyai_ros.engine import notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.gr00t_n17 import lerobot_sidecars
from phyai_ros.engine.models.gr00t_n17.backbone import PUBLISHED, VisionConfig, is_published
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.sidecars import Sidecars, read_isaac
from phyai_ros.engine.types import PolicyError

PREFIX = "_groot_model."
"""What lerobot's keys begin with."""
HEAD = "backbone.model.lm_head.weight"
EMBEDDING = "backbone.model.model.language_model.embed_tokens.weight"
"""One tensor by two names, of which lerobot's checkpoints keep the first alone."""
IMAGE_PROCESSOR = "preprocessor_config.json"

_log = logging.getLogger(__name__)
_PUBLISHED = "nvidia/GR00T-N1.7"
"""What the names of the published base models begin with: their sizes are the defaults."""
_VERSIONS = ("n1.7", "n1_7", "n1d7", "n17", "1.7")
_HEAD_DIM, _VL_HEAD_DIM = 48, 64


def read_sidecars(checkpoint: Checkpoint, embodiment: str | None) -> Sidecars:
    """Raises PolicyError when a file, the tag, or a part of it is missing, naming what there is."""
    if checkpoint.has("processor_config.json"):
        return read_isaac(checkpoint, embodiment)
    if checkpoint.has("policy_preprocessor.json"):
        return lerobot_sidecars.read(checkpoint, embodiment)
    raise PolicyError(
        f"{checkpoint.root}: neither processor_config.json (Isaac-GR00T) nor "
        "policy_preprocessor.json (lerobot)"
    )


def read_image_processor(
    checkpoint: Checkpoint, backbone: str, vision: VisionConfig
) -> Mapping[str, Any] | None:
    """preprocessor_config.json of the ``backbone``, from which official code takes it; None where
    that is a published one, whose numbers ``ImageRules`` has. A checkpoint with another one (an
    architecture.json) carries it. Raises PolicyError where nothing says what it holds, or it cuts
    other patches than ``vision`` has."""
    file = checkpoint.root / IMAGE_PROCESSOR
    if not checkpoint.has(IMAGE_PROCESSOR):
        sizes = "architecture.json"
        own = checkpoint.has(sizes) and "backbone" in checkpoint.json(sizes)
        if is_published(backbone) and not own:
            return None
        whose = f"which {sizes} describes" if own else f"{backbone!r}"
        raise PolicyError(
            f"{file}: missing: expected the one of the backbone, {whose}, found none: its size "
            "decides how large the model sees an image, and official code does not run without; "
            f"known without that file: {PUBLISHED}; copy it from where the backbone is"
        )
    given = checkpoint.json(IMAGE_PROCESSOR)
    for key, expected in (
        ("patch_size", vision.patch),
        ("merge_size", vision.merge),
        ("temporal_patch_size", vision.temporal),
    ):
        if given.get(key, expected) != expected:
            raise PolicyError(
                f"{file}: {key}: expected the backbone's {expected}, found {given[key]!r}"
            )
    return given


def read_config(checkpoint: Checkpoint) -> GrootConfig:
    """The model's dimensions: config.json, and architecture.json where the backbone is not the
    published one. lerobot's config.json does not hold them: there the base model's config.json
    does where it is on this machine, and the weights' shapes."""
    where = str(checkpoint.root / "config.json")
    architecture = None
    if checkpoint.has("architecture.json"):
        architecture = checkpoint.json("architecture.json")
    config: Mapping[str, Any] = checkpoint.config
    if config.get("type") == "groot":
        version = str(config.get("model_version", "n1.7")).lower()
        if version not in _VERSIONS:
            raise PolicyError(f"{where}: model_version {version!r}; expected n1.7")
        config = _lerobot_config(checkpoint)
    return GrootConfig.parse(config, where, architecture)


def _lerobot_config(checkpoint: Checkpoint) -> dict[str, Any]:
    own = checkpoint.config
    base: dict[str, Any] = {}
    path = Path(str(own.get("base_model_path") or ""))
    if path.is_absolute() and (path / "config.json").is_file():
        base = Checkpoint(path).config
    elif own.get("base_model_path") and not str(path).startswith(_PUBLISHED):
        notices.once(
            _log,
            f"{checkpoint.root / 'config.json'}: base_model_path {path} is not here, and what the "
            "weights do not tell (heads, action_horizon, attend_text_every_n_blocks, "
            "num_timestep_buckets) is taken to be as in the published GR00T N1.7; set it to the "
            "whole path of where the base model is",
        )
    config = {**base, **_from_shapes(checkpoint, base)}
    for key in ("num_inference_timesteps", "rtc_ramp_rate"):
        if own.get(key) is not None:
            config[key] = own[key]
    # Never chunk_size: lerobot cuts rows off what the base model's horizon gave, and they count.
    return config


def _from_shapes(checkpoint: Checkpoint, base: Mapping[str, Any]) -> dict[str, Any]:
    """Dimensions that the weights tell. Heads cannot be told: the base model's or the published
    head sizes stand for them."""
    shapes = {key.removeprefix(PREFIX): shape for key, shape in checkpoint.shapes.items()}

    def shape(key: str) -> tuple[int, ...]:
        if key not in shapes:
            raise PolicyError(f"{checkpoint.root}: no weight {key!r}, so its sizes are unknown")
        return shapes[key]

    def count(stem: str) -> int:
        return len({k[len(stem) :].split(".")[0] for k in shapes if k.startswith(stem)})

    head, language = "action_head.", "backbone.model.model.language_model."
    embodiments, action, embedding = shape(head + "action_encoder.W1.W")
    _, state, hidden = shape(head + "state_encoder.layer1.W")
    _, backbone = shape(EMBEDDING if EMBEDDING in shapes else HEAD)
    position = shapes.get(head + "position_embedding.weight")
    config: dict[str, Any] = {
        "max_num_embodiments": embodiments,
        "max_action_dim": action,
        "max_state_dim": state // int(base.get("state_history_length", 1)),
        "input_embedding_dim": embedding,
        "hidden_size": hidden,
        "backbone_embedding_dim": backbone,
        "select_layer": count(language + "layers."),
        "use_vlln": head + "vlln.weight" in shapes,
        "add_pos_embed": position is not None,
        "diffusion_model_cfg": {
            "num_attention_heads": embedding // _HEAD_DIM,
            "attention_head_dim": _HEAD_DIM,
            "interleave_self_attention": True,
            **(base.get("diffusion_model_cfg") or {}),
            "num_layers": count(head + "model.transformer_blocks."),
            "output_dim": shape(head + "model.proj_out_2.weight")[0],
        },
        "vl_self_attention_cfg": {
            "num_attention_heads": backbone // _VL_HEAD_DIM,
            "attention_head_dim": _VL_HEAD_DIM,
            **(base.get("vl_self_attention_cfg") or {}),
            "num_layers": count(head + "vl_self_attention.transformer_blocks."),
        },
    }
    if position is not None:
        config["max_seq_len"] = position[0]
    for name, width in (("diffusion_model_cfg", embedding), ("vl_self_attention_cfg", backbone)):
        part = config[name]
        found = part["num_attention_heads"] * part["attention_head_dim"]
        if part["num_layers"] and found != width:
            raise PolicyError(
                f"{checkpoint.root / 'config.json'}: base_model_path: the base model's config.json "
                f"is needed for {name}: its heads of {part['attention_head_dim']} do not make up "
                f"{width} columns"
            )
    return config
