# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The small GR00T N1.7: sizes, training loss and parameter names of the Isaac-GR00T layout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.train.batch import Batch, augment
from tools.train.gr00t_backbone import Backbone, BackboneSize
from tools.train.gr00t_head import ActionHead, HeadSize
from tools.train.probe import Probe
from tools.train.text import PromptTable

NOISE_S, BUCKETS = 0.999, 1000
"""Flow time t = (s - Beta(1.5, 1)) / s, in 1000 buckets (GR00T's public training code)."""


class Gr00t(nn.Module):
    """One module that turns a batch into named losses."""

    def __init__(self, prompts: PromptTable, probes: tuple[int, int], draws: int = 4) -> None:
        """probes: widths of (block positions, goal). draws: noise draws a sample; the expensive
        backbone runs once for all of them."""
        super().__init__()
        self.size = BackboneSize(vocab=prompts.vocab)
        self.head_size = HeadSize(backbone=self.size.hidden)
        self.draws = draws
        self.backbone = Backbone(self.size, prompts.prefix, prompts.length, prompts.image_token)
        self.action_head = ActionHead(self.head_size)
        tokens = self.size.views * self.size.view_tokens
        self.probe_blocks = Probe(tokens, self.size.hidden, probes[0])
        self.probe_goal = Probe(tokens, self.size.hidden, probes[1])
        self.apply(_initialise)

    def encode(self, pixels: Tensor, ids: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, tokens = self.backbone(pixels, ids)
        return self.action_head.condition(features, valid), tokens, self._image_mask(ids)

    def _image_mask(self, ids: Tensor) -> Tensor:
        mask = torch.zeros(ids.shape[1], dtype=torch.bool, device=ids.device)
        for start, stop in self.backbone.image_slice:
            mask[start:stop] = True
        return mask.expand(ids.shape[0], -1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        pixels = augment(batch.images)
        vl, tokens, image = self.encode(pixels, batch.ids, batch.valid)
        draws = self.draws
        target = batch.chunk.repeat_interleave(draws, dim=0)
        noise = torch.randn_like(target)
        # Beta(1.5, 1) by inversion: its distribution function is x ** 1.5.
        beta = torch.rand(target.shape[0], device=target.device) ** (1 / 1.5)
        bucket = ((NOISE_S - beta) / NOISE_S).clamp_min(0.0).mul(BUCKETS).long()
        t = ((NOISE_S - beta) / NOISE_S)[:, None, None]
        x = (1 - t) * noise + t * target
        v = self.action_head.velocity(
            x, bucket, batch.state, vl, batch.valid & ~image, image, draws
        )
        spots = torch.cat([vl[:, a:b] for a, b in self.backbone.image_slice], dim=1)
        return {
            "flow": F.mse_loss(v.float(), target - noise),
            "blocks": F.mse_loss(self.probe_blocks(tokens.flatten(1, 2)).float(), batch.blocks),
            "goal": F.mse_loss(self.probe_goal(spots).float(), batch.goal),
        }

    @torch.no_grad()
    def sample(self, batch: Batch, noise: Tensor, steps: int = 4) -> Tensor:
        """Normalised chunks as the engine's solver makes them, for the check against the engine."""
        pixels = batch.images.float() / 127.5 - 1
        vl, _, image = self.encode(pixels, batch.ids, batch.valid)
        x = noise
        for i in range(steps):
            bucket = torch.full((x.shape[0],), int(i / steps * BUCKETS), device=x.device)
            text = batch.valid & ~image
            x = x + self.action_head.velocity(x, bucket, batch.state, vl, text, image) / steps
        return x


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
