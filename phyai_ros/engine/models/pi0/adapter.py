# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 from a checkpoint of LeRobot or openpi."""

from __future__ import annotations

import torch

from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.paligemma import load as load_
from phyai_ros.engine.models.paligemma.adapter import FlowAdapter
from phyai_ros.engine.models.paligemma.family import FlowFamily
from phyai_ros.engine.models.paligemma.prompt import lerobot_pi0
from phyai_ros.engine.models.pi0.model import Pi0

FAMILY = FlowFamily(
    name="pi0",
    model=Pi0,
    adaptive=False,
    heads={
        "action_in_proj": "action_in",
        "action_out_proj": "action_out",
        "state_proj": "state_in",
        "action_time_mlp_in": "time_in",
        "action_time_mlp_out": "time_out",
    },
    legacy={"time_mlp_in": "action_time_mlp_in", "time_mlp_out": "action_time_mlp_out"},
    ignore=(),
    lerobot_prompt=lambda layout: lerobot_pi0,
    quantiles=False,
    discrete_state=False,
    max_tokens=48,
)


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> FlowAdapter:
    return load_.load(FAMILY, checkpoint, embodiment=embodiment, device=device, dtype=dtype)
