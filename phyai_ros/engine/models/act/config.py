# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT's config.json as LeRobot writes it; absent fields take LeRobot's defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.layers.resnet import VARIANTS
from phyai_ros.engine.types import PolicyError


@dataclass(frozen=True)
class ActConfig:
    """state_dim and env_dim are 0 where the policy has no such input. backbone_width: channels of
    the ResNet's first stage (64 in every published variant)."""

    cameras: tuple[str, ...]
    state_dim: int = field(metadata={LEAST: 0})
    env_dim: int = field(metadata={LEAST: 0})
    action_dim: int
    chunk_size: int = 100
    n_action_steps: int = 100
    vision_backbone: str = "resnet18"
    replace_final_stride_with_dilation: bool = False
    pre_norm: bool = False
    dim_model: int = 512
    n_heads: int = 8
    dim_feedforward: int = 3200
    feedforward_activation: str = "relu"
    n_encoder_layers: int = 4
    n_decoder_layers: int = 1
    latent_dim: int = 32
    temporal_ensemble_coeff: float | None = field(default=None, metadata={LEAST: -math.inf})
    backbone_width: int = 64

    @classmethod
    def parse(
        cls,
        config: Mapping[str, Any],
        where: str,
        *,
        cameras: tuple[str, ...],
        state_dim: int,
        env_dim: int,
        action_dim: int,
        backbone_width: int = 64,
    ) -> ActConfig:
        """where: names the file in a PolicyError."""
        known = {f.name for f in fields(cls)} - {
            "cameras", "state_dim", "env_dim", "action_dim", "backbone_width",
        }  # fmt: skip
        if config.get("n_obs_steps", 1) != 1:
            raise PolicyError(f"{where}: n_obs_steps: expected 1, found {config['n_obs_steps']!r}")
        values = {k: v for k, v in config.items() if k in known}
        # LeRobot declares a whole number: a config that it has read once has 0 for false.
        if type(dilates := values.get("replace_final_stride_with_dilation")) is int:
            values["replace_final_stride_with_dilation"] = dilates != 0
        result = cls(
            cameras=cameras,
            state_dim=state_dim,
            env_dim=env_dim,
            action_dim=action_dim,
            backbone_width=backbone_width,
            **values,
        )
        check_fields(result, where)
        result._check(where)
        return result

    def _check(self, where: str) -> None:
        if self.vision_backbone not in VARIANTS:
            raise PolicyError(
                f"{where}: vision_backbone is {self.vision_backbone!r}; known: {sorted(VARIANTS)}"
            )
        if (
            self.replace_final_stride_with_dilation
            and not VARIANTS[self.vision_backbone].bottleneck
        ):
            raise PolicyError(
                f"{where}: replace_final_stride_with_dilation needs a bottleneck ResNet, "
                f"vision_backbone is {self.vision_backbone!r}"
            )
        if self.feedforward_activation not in ("relu", "gelu"):
            raise PolicyError(
                f"{where}: feedforward_activation is {self.feedforward_activation!r}; "
                "known: gelu, relu"
            )
        if self.dim_model % self.n_heads or self.dim_model % 4:
            raise PolicyError(
                f"{where}: dim_model {self.dim_model} must be a multiple of 4 and of n_heads "
                f"{self.n_heads}"
            )
        if not self.cameras and not self.env_dim:
            raise PolicyError(f"{where}: input_features has neither a camera nor an ENV feature")
        if not 1 <= self.n_action_steps <= self.chunk_size:
            raise PolicyError(
                f"{where}: n_action_steps {self.n_action_steps} must be 1..{self.chunk_size} "
                "(chunk_size)"
            )
