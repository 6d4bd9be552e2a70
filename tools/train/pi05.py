# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The small pi0.5: the engine's own modules, with a training loss around them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phyai_ros.engine.models.paligemma.config import FlowConfig, GemmaConfig, SiglipConfig
from phyai_ros.engine.models.paligemma.flow import Inputs, Prefix
from phyai_ros.engine.models.paligemma.gemma import KeyValue, Rope
from phyai_ros.engine.models.pi05.model import Pi05
from tools.train.batch import Batch, augment
from tools.train.probe import Probe

SCALE, OFFSET = 0.999, 0.001
"""Flow time t = 0.999 * Beta(1.5, 1) + 0.001, one is noise (openpi's public training code)."""


def flow_config(vocabulary: int, state: int, action: int, horizon: int) -> FlowConfig:
    gemma = {"depth": 4, "heads": 4, "kv_heads": 1, "head_dim": 32, "vocabulary": vocabulary}
    return FlowConfig(
        vision=SiglipConfig(
            width=128, depth=4, mlp_width=512, heads=4, patch_size=14, image_size=140
        ),
        language=GemmaConfig(width=128, mlp_width=512, **gemma),
        expert=GemmaConfig(width=128, mlp_width=384, **gemma),
        horizon=horizon,
        action_width=action,
        state_width=state,
        denoising_steps=5,
    )


class Pi05Trainee(nn.Module):
    def __init__(
        self, config: FlowConfig, views: int, probes: tuple[int, int], draws: int = 4
    ) -> None:
        super().__init__()
        self.policy = Pi05(config)
        self.draws = draws
        patches = views * config.vision.patches
        self.probe_blocks = Probe(patches, config.language.width, probes[0])
        self.probe_goal = Probe(patches, config.language.head_dim, probes[1])
        self._frozen = False

    def freeze_view(self, draws: int = 16) -> None:
        """Train the action expert alone, on what the rest makes of an observation now: much
        faster, and enough where only the chunks are others. draws: noises for each observation."""
        policy = self.policy
        for part in (policy.image, policy.projector, policy.language):
            part.requires_grad_(False)
        self.probe_blocks.requires_grad_(False)
        self.probe_goal.requires_grad_(False)
        self._frozen, self.draws = True, draws

    def encode(self, pixels: Tensor, batch: Batch) -> tuple[Tensor, Prefix]:
        seen = torch.ones(pixels.shape[:2], dtype=torch.bool, device=pixels.device)
        inputs = Inputs(pixels, seen, batch.ids, batch.valid, batch.state)
        features = self.policy.vision(inputs)
        return features, self.policy.prefix(inputs, features)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if self._frozen:
            with torch.no_grad():
                _, prefix = self.encode(augment(batch.images), batch)
            return {"flow": self.flow(prefix, batch.chunk)}
        features, prefix = self.encode(augment(batch.images), batch)
        spots = prefix.layers[-1].value[:, 0, : features.shape[1] * features.shape[2]]
        return {
            "flow": self.flow(prefix, batch.chunk),
            "blocks": F.mse_loss(self.probe_blocks(features.flatten(1, 2)).float(), batch.blocks),
            "goal": F.mse_loss(self.probe_goal(spots).float(), batch.goal),
        }

    def flow(self, prefix: Prefix, chunk: Tensor) -> Tensor:
        """The loss of the chunks' velocities, ``draws`` noises each."""
        target = self._repeat(chunk)
        noise = torch.randn_like(target)
        time = self.flow_time(target)
        x = time[:, :, None] * noise + (1 - time[:, :, None]) * target
        v = self.policy.velocity(x, self.many(prefix), self.policy.condition(time))
        return F.mse_loss(v, noise - target)

    def flow_time(self, target: Tensor) -> Tensor:
        """Random [b, 1]. Beta(1.5, 1) by inversion: its distribution function is x ** 1.5."""
        return torch.rand(target.shape[0], 1, device=target.device) ** (1 / 1.5) * SCALE + OFFSET

    def many(self, prefix: Prefix) -> Prefix:
        """The prefix for all draws."""
        return Prefix(
            tuple(KeyValue(*(self._repeat(t) for t in kv)) for kv in prefix.layers),
            self._repeat(prefix.mask),
            Rope(*(self._repeat(t) for t in prefix.positions)),
        )

    def _repeat(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.draws, dim=0)

    @torch.no_grad()
    def sample(self, batch: Batch, noise: Tensor) -> Tensor:
        """Normalised chunks as the engine's solver makes them."""
        steps = self.policy.config.denoising_steps
        _, prefix = self.encode(batch.images.float() / 127.5 - 1, batch)
        constants = self.policy.constants(steps)
        x = noise
        for i in range(steps):
            x = x - self.policy.predict(x, i, prefix, constants) / steps
        return x
