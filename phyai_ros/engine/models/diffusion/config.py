# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Diffusion Policy's config.json as LeRobot writes it; absent fields take LeRobot's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from phyai_ros.engine.fields import LEAST, check_fields
from phyai_ros.engine.layers.resnet import VARIANTS
from phyai_ros.engine.noise_schedule import NoiseSchedule
from phyai_ros.engine.types import PolicyError


@dataclass(frozen=True)
class DiffusionConfig:
    """env_dim is 0 where the policy has no such input. image_shape: height and width of the raw
    images, the same for every camera. backbone_width: channels of the ResNet's first stage (64 in
    every published variant)."""

    cameras: tuple[str, ...]
    image_shape: tuple[int, int] | None
    state_dim: int = field(metadata={LEAST: 0})
    env_dim: int = field(metadata={LEAST: 0})
    action_dim: int
    n_obs_steps: int = 2
    horizon: int = 64
    n_action_steps: int = 32
    vision_backbone: str = "resnet18"
    resize_shape: tuple[int, int] | None = None
    crop_ratio: float = 1.0
    crop_shape: tuple[int, int] | None = None
    use_group_norm: bool = False
    spatial_softmax_num_keypoints: int = 32
    use_separate_rgb_encoder_per_camera: bool = True
    down_dims: tuple[int, ...] = (512, 1024, 2048)
    kernel_size: int = 5
    n_groups: int = 8
    diffusion_step_embed_dim: int = 128
    use_film_scale_modulation: bool = True
    noise_scheduler_type: str = "DDPM"
    num_train_timesteps: int = 100
    beta_schedule: str = "squaredcos_cap_v2"
    beta_start: float = field(default=0.0001, metadata={LEAST: 0.0})
    beta_end: float = 0.02
    prediction_type: str = "epsilon"
    clip_sample: bool = True
    clip_sample_range: float = 1.0
    num_inference_steps: int | None = None
    backbone_width: int = 64

    @classmethod
    def parse(cls, config: Mapping[str, Any], where: str, **sizes: Any) -> DiffusionConfig:
        """sizes: the fields that config.json holds as features (cameras, image_shape, state_dim,
        env_dim, action_dim) and backbone_width. where: names the file in a PolicyError."""
        known = {f.name for f in fields(cls)} - set(sizes) - {"backbone_width"}
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in config.items() if k in known
        }
        result = cls(**sizes, **values)
        check_fields(result, where)
        result._check(where)
        return result

    @property
    def crop(self) -> tuple[int, int] | None:
        """Height and width of the centre crop. With a resize, LeRobot crops by ratio only."""
        if self.resize_shape is None:
            return self.crop_shape
        if self.crop_ratio >= 1.0:
            return None
        height, width = self.resize_shape
        return int(height * self.crop_ratio), int(width * self.crop_ratio)

    @property
    def encoder_input(self) -> tuple[int, int]:
        """Height and width that reach the ResNet."""
        size = self.crop or self.resize_shape or self.image_shape
        if size is None:
            raise ValueError("no camera, so no image encoder")
        return size

    @property
    def image_feature_dim(self) -> int:
        return 2 * self.spatial_softmax_num_keypoints

    @property
    def condition_dim(self) -> int:
        """Width of the global condition: all observation steps, flattened."""
        images = len(self.cameras) * self.image_feature_dim
        return self.n_obs_steps * (self.state_dim + images + self.env_dim)

    @property
    def schedule(self) -> NoiseSchedule:
        steps = self.num_inference_steps
        return NoiseSchedule(
            train_steps=self.num_train_timesteps,
            steps=self.num_train_timesteps if steps is None else steps,
            beta_schedule=self.beta_schedule,
            beta_start=self.beta_start,
            beta_end=self.beta_end,
            prediction=self.prediction_type,
            clip=self.clip_sample_range if self.clip_sample else None,
        )

    def _check(self, where: str) -> None:
        if self.vision_backbone not in VARIANTS:
            raise PolicyError(
                f"{where}: vision_backbone is {self.vision_backbone!r}; known: {sorted(VARIANTS)}"
            )
        if self.noise_scheduler_type not in ("DDIM", "DDPM"):
            raise PolicyError(
                f"{where}: noise_scheduler_type is {self.noise_scheduler_type!r}; known: DDIM, DDPM"
            )
        factor = 2 ** len(self.down_dims)
        if self.horizon % factor:
            raise PolicyError(
                f"{where}: horizon {self.horizon} must be a multiple of {factor} "
                f"(down_dims has {len(self.down_dims)} levels)"
            )
        rows = self.horizon - self.n_obs_steps + 1
        if not 1 <= self.n_action_steps <= rows:
            raise PolicyError(
                f"{where}: n_action_steps {self.n_action_steps} must be 1..{rows} "
                f"(horizon {self.horizon}, n_obs_steps {self.n_obs_steps})"
            )
        if not self.cameras and not self.env_dim:
            raise PolicyError(f"{where}: input_features has neither a camera nor an ENV feature")
        source = self.resize_shape or self.image_shape
        if self.crop and source and (self.crop[0] > source[0] or self.crop[1] > source[1]):
            raise PolicyError(
                f"{where}: crop {self.crop} does not fit in images of {source} (height, width)"
            )
        try:
            _ = self.schedule
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None
