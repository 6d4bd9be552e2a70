# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint of either ecosystem -> an adapter."""

from __future__ import annotations

from dataclasses import replace

import torch

from phyai_ros.engine import guidance
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.lerobot import refuse_embodiment
from phyai_ros.engine.models.paligemma import lerobot, openpi
from phyai_ros.engine.models.paligemma.adapter import FlowAdapter
from phyai_ros.engine.models.paligemma.config import FlowConfig
from phyai_ros.engine.models.paligemma.family import FlowFamily


def load(
    family: FlowFamily,
    checkpoint: Checkpoint,
    *,
    embodiment: str | None,
    device: torch.device,
    dtype: torch.dtype,
) -> FlowAdapter:
    """embodiment: openpi's asset id, where a checkpoint has several; LeRobot's has none."""
    with checkpoint.sized_by("paligemma_variant, action_expert_variant"):
        if "type" in checkpoint.config:
            refuse_embodiment(checkpoint.root, family.name, embodiment)
            config, spec, transforms = lerobot.read(family, checkpoint)
        else:
            config, spec, transforms = openpi.read(family, checkpoint, embodiment)
        model = family.read(checkpoint, config, device, dtype)
    spec = replace(
        spec, guidance_methods=guidance_methods(config), trained_delay=config.trained_delay
    )
    return FlowAdapter(spec, model, transforms)


def guidance_methods(config: FlowConfig) -> tuple[str, ...]:
    """What a flow with a gradient can do, and what it was trained for."""
    trained = (guidance.RTC_TRAINED,) if config.trained_delay else ()
    return (guidance.RTC_IDENTITY, guidance.RTC_VJP, guidance.SEAM, *trained)
