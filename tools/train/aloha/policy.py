# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The small ACT: the engine's own modules, with a training loss around them.

Trained without ACT's VAE: the expert has one way to do it, and the latent is zero at inference.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phyai_ros.engine.layers.resnet import ResNet
from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.models.act.model import ActInputs, ActModel
from tools.train.aloha.demonstrations import CAMERAS, HORIZON, JOINTS
from tools.train.batch import augment

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, as LeRobot normalises ACT's images by default."""


class Sample(NamedTuple):
    """images uint8 [b, views, 3, h, w]; state [b, 14], chunk [b, horizon, 14] normalised; cube
    [b, 2] standardised."""

    images: Tensor
    state: Tensor
    chunk: Tensor
    cube: Tensor


def config() -> ActConfig:
    return ActConfig(
        cameras=tuple(f"observation.images.{c}" for c in CAMERAS),
        state_dim=JOINTS,
        env_dim=0,
        action_dim=JOINTS,
        chunk_size=HORIZON,
        n_action_steps=HORIZON,
        pre_norm=True,
        dim_model=128,
        n_heads=4,
        dim_feedforward=512,
        backbone_width=24,
    )


class Trainee(nn.Module):
    """With batch norm in place of the frozen one, whose tensors have the same names; and a probe
    that asks the image features where the cube is, so that they learn that first."""

    def __init__(self) -> None:
        super().__init__()
        c = config()
        self.policy = ActModel(c)
        self.policy.backbone = ResNet(
            c.vision_backbone, norm=nn.BatchNorm2d, width=c.backbone_width
        )
        self.probe = nn.Sequential(nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, 2))
        for name, p in self.policy.named_parameters():
            if name.startswith("backbone"):
                if p.dim() == 4:
                    nn.init.kaiming_normal_(p, mode="fan_out", nonlinearity="relu")
            elif p.dim() > 1:
                nn.init.xavier_uniform_(p)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    def chunk(self, pixels: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """pixels float [b, views, 3, h, w] in [0, 1] -> normalised chunk, the probe's answer."""
        images = ((pixels - self.mean) / self.std).unbind(1)
        inputs = ActInputs(tuple(images), state, None, len(state))
        features = self.policy.vision(inputs)
        prefix = self.policy.prefix(inputs, features)
        actions = self.policy.predict(state, 0, prefix, self.policy.constants(1))
        return actions, self.probe(torch.cat(features, dim=1).flatten(1))

    def forward(self, batch: Sample) -> dict[str, Tensor]:
        actions, cube = self.chunk((augment(batch.images) + 1) / 2, batch.state)
        return {
            "l1": F.l1_loss(actions.float(), batch.chunk),
            "cube": 0.1 * F.mse_loss(cube.float(), batch.cube),
        }

    @torch.no_grad()
    def predict(self, batch: Sample) -> Tensor:
        return self.chunk(batch.images.float() / 255, batch.state)[0]
