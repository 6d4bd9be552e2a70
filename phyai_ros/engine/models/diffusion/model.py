# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Diffusion Policy (arXiv 2303.04137) as LeRobot ships it: image keypoints and states of the last
observations make one condition vector, under which a U-Net denoises the action rows.

Module names follow the checkpoint's keys (below ``diffusion.``), except numbers; see ``rename``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.resnet import FrozenBatchNorm2d, ResNet, group_norm
from phyai_ros.engine.models.diffusion.config import DiffusionConfig
from phyai_ros.engine.models.diffusion.unet import UNet
from phyai_ros.engine.types import PolicyError

RESNET_STAGES = ("layer1", "layer2", "layer3", "layer4")
_NUMBERED = (
    (re.compile(r"(\.backbone\.)(\d+)(?=\.)"), ("conv1", "bn1", "", "", *RESNET_STAGES)),
    (re.compile(r"((?:up|down)_modules\.\d+\.)(\d+)(?=\.)"), ("first", "second", "resample")),
    (re.compile(r"(\.step_encoder\.)(\d+)(?=\.)"), ("", "widen", "", "narrow")),
)
"""Modules that the checkpoint numbers (parameter-free ones count too), and their names here."""


def rename(key: str) -> str | None:
    """Checkpoint key -> parameter name of ``DiffusionModel``."""
    if not key.startswith("diffusion."):
        return None
    name = key.removeprefix("diffusion.").replace(".diffusion_step_encoder.", ".step_encoder.")
    name = name.replace(".cond_encoder.1.", ".modulation.")
    name = name.replace("._orig_mod.", ".")  # torch.compile's, where ``compile_model`` was set
    for pattern, names in _NUMBERED:
        found = pattern.search(name)
        if found and int(found[2]) < len(names):
            name = name[: found.start(2)] + names[int(found[2])] + name[found.end(2) :]
    return name


@dataclass(frozen=True)
class DiffusionInputs:
    """images [B, n_obs, cameras, 3, h, w]: normalised, resized, cropped, oldest first; None where
    there is no camera. state [B, n_obs, state_dim], env [B, n_obs, env_dim] or None: normalised."""

    images: torch.Tensor | None
    state: torch.Tensor | None
    env: torch.Tensor | None


@dataclass(frozen=True)
class DiffusionPrefix:
    """condition [B, condition_dim]; modulations: the condition's share, one a residual block."""

    condition: torch.Tensor
    modulations: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class DiffusionConstants:
    """embeddings [steps, E]; modulations: the step's share, one [steps, ...] a residual block."""

    embeddings: torch.Tensor
    modulations: tuple[torch.Tensor, ...]


class SpatialSoftmax(nn.Module):
    """Feature maps -> expected pixel coordinates in [-1, 1], one (x, y) a keypoint
    (arXiv 1504.00702)."""

    pos_grid: torch.Tensor

    def __init__(self, channels: int, keypoints: int, height: int, width: int):
        super().__init__()
        self.nets = nn.Conv2d(channels, keypoints, 1)
        self.register_buffer("pos_grid", torch.zeros(height * width, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, C, h, w] -> [B, 2 keypoints]."""
        attention = F.softmax(self.nets(x).flatten(2).float(), dim=-1)
        return (attention @ self.pos_grid).flatten(1).to(x.dtype)


class ImageEncoder(nn.Module):
    """ResNet, keypoints, a linear layer and relu."""

    def __init__(self, config: DiffusionConfig):
        super().__init__()
        self.backbone = ResNet(
            config.vision_backbone,
            norm=group_norm if config.use_group_norm else FrozenBatchNorm2d,
            width=config.backbone_width,
        )
        height, width = self.backbone.feature_size(*config.encoder_input)
        keypoints = config.spatial_softmax_num_keypoints
        self.pool = SpatialSoftmax(self.backbone.channels, keypoints, height, width)
        self.out = nn.Linear(config.image_feature_dim, config.image_feature_dim)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[B, 3, h, w] -> [B, image_feature_dim]."""
        return F.relu(self.out(self.pool(self.backbone(images))))


class DiffusionModel(nn.Module):
    """One encoder a camera or one for all, and the U-Net."""

    def __init__(self, config: DiffusionConfig):
        super().__init__()
        self.config = config
        if config.cameras:
            self.rgb_encoder: nn.Module = (
                nn.ModuleList(ImageEncoder(config) for _ in config.cameras)
                if config.use_separate_rgb_encoder_per_camera
                else ImageEncoder(config)
            )
        self.unet = UNet(config)

    def vision(self, inputs: DiffusionInputs) -> torch.Tensor | None:
        """-> image features [B, n_obs, cameras, image_feature_dim]."""
        images = inputs.images
        if images is None:
            return None
        batch, steps, cameras = images.shape[:3]
        if isinstance(self.rgb_encoder, nn.ModuleList):
            features = [
                encoder(images[:, :, i].flatten(0, 1)).unflatten(0, (batch, steps))
                for i, encoder in enumerate(self.rgb_encoder)
            ]
            return torch.stack(features, dim=2)
        return self.rgb_encoder(images.flatten(0, 2)).unflatten(0, (batch, steps, cameras))

    def prefix(self, inputs: DiffusionInputs, features: torch.Tensor | None) -> DiffusionPrefix:
        """features: ``vision``'s -> state, images and environment of every step, in one vector."""
        parts = [inputs.state, None if features is None else features.flatten(2), inputs.env]
        condition = torch.cat([p for p in parts if p is not None], dim=-1).flatten(1)
        return DiffusionPrefix(
            condition, tuple(block.condition_part(condition) for block in self.unet.blocks())
        )

    def constants(self, steps: int) -> DiffusionConstants:
        """steps: those of the config's schedule, which also knows their timesteps."""
        if steps != self.config.schedule.steps:
            raise PolicyError(
                f"asked for {steps} steps, the schedule has {self.config.schedule.steps}"
            )
        embeddings = self.unet.step_encoder(self.config.schedule.timesteps)
        return DiffusionConstants(
            embeddings, tuple(block.step_part(embeddings) for block in self.unet.blocks())
        )

    def predict(
        self,
        x: torch.Tensor,
        step: int,
        prefix: DiffusionPrefix,
        constants: DiffusionConstants,
    ) -> torch.Tensor:
        """x [B, horizon, action_dim] -> the noise or the clean sample, as the schedule says."""
        pairs = zip(prefix.modulations, constants.modulations, strict=True)
        modulations = [of_request + of_step[step] for of_request, of_step in pairs]
        dtype = modulations[0].dtype
        return self.unet(x.to(dtype), modulations).to(x.dtype)
