# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0.5 from a checkpoint of LeRobot or openpi."""

from __future__ import annotations

import logging

import torch

from phyai_ros.engine import notices
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.fields import whole
from phyai_ros.engine.models.lerobot import Layout
from phyai_ros.engine.models.paligemma import load as load_
from phyai_ros.engine.models.paligemma.adapter import FlowAdapter
from phyai_ros.engine.models.paligemma.family import FlowFamily
from phyai_ros.engine.models.paligemma.prompt import Prompt, pi05, pi05_padded
from phyai_ros.engine.models.pi05.model import Pi05
from phyai_ros.engine.types import PolicyError

_log = logging.getLogger(__name__)
_STEP = "pi05_prepare_state_tokenizer_processor_step"


def lerobot_prompt(layout: Layout) -> Prompt:
    """The state as it is, as LeRobot does since 0.5.0; padded to ``max_state_dim`` where that
    step's config names it, which is how to run a checkpoint trained with 0.4 as it was trained."""
    step = layout.preprocessor.require(_STEP)
    if not step.config.get("include_state_in_prompt", True):
        raise PolicyError(f"{step.file}: {_STEP}.include_state_in_prompt false is not supported")
    width = step.config.get("max_state_dim")
    if width is not None:
        return pi05_padded(whole(width, f"{layout.preprocessor.file}: {_STEP}.max_state_dim"))
    if layout.preprocessor.find("relative_actions_processor") is None:
        notices.once(
            _log,
            f"{layout.preprocessor.file} was written by an older LeRobot. If the policy was "
            "trained with 0.4, which padded the state in the prompt, put "
            f'"max_state_dim": 32 into the config of the step {_STEP}',
        )
    return pi05


FAMILY = FlowFamily(
    name="pi05",
    model=Pi05,
    adaptive=True,
    heads={
        "action_in_proj": "action_in",
        "action_out_proj": "action_out",
        "time_mlp_in": "time_in",
        "time_mlp_out": "time_out",
    },
    legacy={"action_time_mlp_in": "time_mlp_in", "action_time_mlp_out": "time_mlp_out"},
    ignore=(r"(model\.)?state_proj\.(weight|bias)",),
    lerobot_prompt=lerobot_prompt,
    quantiles=True,
    discrete_state=True,
    max_tokens=200,
)


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> FlowAdapter:
    return load_.load(FAMILY, checkpoint, embodiment=embodiment, device=device, dtype=dtype)
