# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 and pi0.5 as LeRobot's ``save_pretrained`` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phyai_ros.engine import tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models import lerobot_steps
from phyai_ros.engine.models.lerobot import STATE, Layout, read_layout
from phyai_ros.engine.models.lerobot_vectors import normaliser
from phyai_ros.engine.models.paligemma.adapter import Transforms
from phyai_ros.engine.models.paligemma.config import (
    FlowConfig,
    SiglipConfig,
    gemma_variant,
    override,
)
from phyai_ros.engine.models.paligemma.family import FlowFamily
from phyai_ros.engine.types import PolicyError, PolicySpec

_UNSUPPORTED = ("use_visual_memory", "use_proprioceptive_memory")


def read(family: FlowFamily, checkpoint: Checkpoint) -> tuple[FlowConfig, PolicySpec, Transforms]:
    """Everything but the weights."""
    layout = read_layout(checkpoint.root, checkpoint.config)
    file = str(checkpoint.root / "config.json")
    config = flow_config(checkpoint, file)
    _check(layout, config, file)
    transforms = _transforms(family, checkpoint, layout)
    spec = PolicySpec(
        family=family.name,
        checkpoint=str(checkpoint.root),
        cameras=transforms.slots,
        optional_cameras=transforms.slots,
        state=layout.state_specs(),
        action=layout.action_specs(),
        horizon=config.horizon,
        denoising_steps=config.denoising_steps,
        model_action_dim=config.action_width,
        max_prompt_tokens=transforms.max_tokens,
        image_size=(config.vision.image_size, config.vision.image_size),
    )
    return config, spec, transforms


def flow_config(checkpoint: Checkpoint, file: str) -> FlowConfig:
    """config.json (and architecture.json, where it overrides the sizes) -> the model's sizes."""
    given = checkpoint.config
    for name in _UNSUPPORTED:
        if given.get(name):
            raise PolicyError(f"{file}: {name} is {given[name]!r}, which is not supported")
    height, width = _pair(given, "image_resolution", (224, 224), file)
    if height != width:
        raise PolicyError(f"{file}: image_resolution must be square, found {[height, width]}")
    config = FlowConfig(
        vision=SiglipConfig(image_size=height),
        language=gemma_variant(given, "paligemma_variant", "gemma_2b", file),
        expert=gemma_variant(given, "action_expert_variant", "gemma_300m", file),
        horizon=_integer(given, "chunk_size", 50, file),
        action_width=_integer(given, "max_action_dim", 32, file),
        state_width=_integer(given, "max_state_dim", 32, file),
        denoising_steps=_integer(given, "num_inference_steps", 10, file),
        min_period=float(given.get("min_period", 4e-3)),
        max_period=float(given.get("max_period", 4.0)),
        trained_delay=_integer(given, "rtc_training_max_delay", 0, file),
    )
    if checkpoint.has("architecture.json"):
        where = str(checkpoint.root / "architecture.json")
        config = override(config, checkpoint.json("architecture.json"), where)
        file = f"{file} and architecture.json"
        if config.vision.image_size != height:
            raise PolicyError(
                f"{where}: image_size is {config.vision.image_size}, but config.json's "
                f"image_resolution is {[height, width]}"
            )
    config.check(file)
    return config


def _check(layout: Layout, config: FlowConfig, file: str) -> None:
    (action,) = layout.action.shape
    state = sum(f.shape[0] for f in layout.states)
    if layout.config.get("n_obs_steps", 1) != 1:
        raise PolicyError(
            f"{file}: n_obs_steps is {layout.config['n_obs_steps']}; expected 1, the observation"
        )
    if not layout.states or any(f.kind == "ENV" for f in layout.states):
        raise PolicyError(
            f"{file}: input_features needs {STATE!r} of type STATE and no ENV feature, found "
            f"{', '.join(f'{f.key!r} of type {f.kind}' for f in layout.inputs)}"
        )
    for name, found, most in (
        ("observation.state", state, config.state_width),
        ("action", action, config.action_width),
    ):
        if found > most:
            raise PolicyError(f"{file}: {name} has {found} values, the model takes {most}")
    if any(layout.relative_mask()) and state < action:
        raise PolicyError(
            f"{file}: relative actions need a state as long as the action, found {state} < {action}"
        )
    for camera in (f for f in layout.inputs if f.kind == "VISUAL"):
        mode = layout.preprocessor.require("normalizer_processor").config.get("norm_map", {})
        if mode.get("VISUAL", "IDENTITY") != "IDENTITY":
            raise PolicyError(
                f"{layout.preprocessor.file}: norm_map.VISUAL is {mode['VISUAL']!r} for "
                f"{camera.key}; expected IDENTITY"
            )


def _transforms(family: FlowFamily, checkpoint: Checkpoint, layout: Layout) -> Transforms:
    step = layout.preprocessor.require(lerobot_steps.TOKENIZER).config
    if step.get("padding_side", "right") != "right":
        raise PolicyError(
            f"{layout.preprocessor.file}: tokenizer_processor.padding_side is "
            f"{step['padding_side']!r}; expected 'right'"
        )
    (state,) = layout.states
    (action_dim,) = layout.action.shape
    return Transforms(
        slots=layout.real_cameras,
        absent_last=True,
        pillow=False,
        state=normaliser(layout.input_normalisation(state.key), state, layout),
        action=normaliser(layout.action_normalisation(), layout.action, layout),
        action_width=action_dim,
        relative=np.array(layout.relative_mask()),
        prompt=family.lerobot_prompt(layout),
        tokenizer=tokenize.load(checkpoint, step.get("tokenizer_name")),
        max_tokens=lerobot_steps.prompt_limit(
            step,
            layout.config.get("tokenizer_max_length", family.max_tokens),
            layout.preprocessor.file,
        ),
        dtype=np.float32,
    )


def _integer(config: Mapping[str, Any], key: str, default: int, file: str) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f"{file}: {key} must be a whole number, found {value!r}")
    return value


def _pair(
    config: Mapping[str, Any], key: str, default: tuple[int, int], file: str
) -> tuple[int, int]:
    value = config.get(key, default)
    if not isinstance(value, (list, tuple)) or [type(v) for v in value] != [int, int]:
        raise PolicyError(f"{file}: {key} must be two whole numbers, found {value!r}")
    return value[0], value[1]
