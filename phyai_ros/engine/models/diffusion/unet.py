# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Diffusion Policy's 1-D U-Net over action rows (arXiv 2303.04137), as LeRobot ships it.

Each residual block is modulated by W mish([step; global]) + b. Mish is elementwise, so the product
splits exactly into a part of the denoising step (a constant of the load) and a part of the
observation (once a request); ``modulate`` of a block adds the two.

The checkpoint numbers some modules; ``model.rename`` gives them the names used here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.stack import Stack
from phyai_ros.engine.models.diffusion.config import DiffusionConfig

_FINAL_GROUPS = 8
"""Groups of the last block: the reference does not hand it the config's n_groups."""


class ConvBlock(nn.Module):
    """Convolution over rows, group norm, mish."""

    def __init__(self, inputs: int, outputs: int, kernel: int, groups: int):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2),
            nn.GroupNorm(groups, outputs),
            nn.Mish(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


class ResidualBlock(nn.Module):
    """Two ``ConvBlock``, modulated between them, beside a 1 x 1 convolution."""

    def __init__(self, inputs: int, outputs: int, config: DiffusionConfig):
        super().__init__()
        self.scales = config.use_film_scale_modulation
        self.step_dim = config.diffusion_step_embed_dim
        self.conv1 = ConvBlock(inputs, outputs, config.kernel_size, config.n_groups)
        self.conv2 = ConvBlock(outputs, outputs, config.kernel_size, config.n_groups)
        condition = config.diffusion_step_embed_dim + config.condition_dim
        self.modulation = nn.Linear(condition, 2 * outputs if self.scales else outputs)
        self.residual_conv = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def step_part(self, embedding: torch.Tensor) -> torch.Tensor:
        """Step embeddings [steps, E] -> their share of the modulation, bias included."""
        weight = self.modulation.weight[:, : self.step_dim]
        return F.linear(F.mish(embedding), weight, self.modulation.bias)

    def condition_part(self, condition: torch.Tensor) -> torch.Tensor:
        """Global condition [B, C] -> its share of the modulation."""
        return F.linear(F.mish(condition), self.modulation.weight[:, self.step_dim :])

    def forward(self, x: torch.Tensor, modulation: torch.Tensor) -> torch.Tensor:
        """x [B, inputs, rows], modulation [B, 2 outputs] (scale, shift) or [B, outputs] (shift)."""
        y = self.conv1(x)
        modulation = modulation.unsqueeze(-1)
        if self.scales:
            scale, shift = modulation.chunk(2, dim=1)
            y = scale * y + shift
        else:
            y = y + modulation
        return self.conv2(y) + self.residual_conv(x)


class Level(nn.Module):
    """Two residual blocks and a change of the number of rows."""

    def __init__(self, inputs: int, outputs: int, resample: nn.Module, config: DiffusionConfig):
        super().__init__()
        self.first = ResidualBlock(inputs, outputs, config)
        self.second = ResidualBlock(outputs, outputs, config)
        self.resample = resample


class StepEncoder(nn.Module):
    """Training timesteps -> [steps, E]: sinusoid, then an MLP."""

    def __init__(self, dim: int):
        super().__init__()
        self.frequencies = dim // 2
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, timesteps: Sequence[int]) -> torch.Tensor:
        weight = self.widen.weight
        steps = torch.tensor(timesteps, dtype=torch.float32, device=weight.device)
        rate = torch.arange(self.frequencies, dtype=torch.float32, device=weight.device)
        angle = steps[:, None] * torch.exp(rate * -(math.log(10000) / (self.frequencies - 1)))
        table = torch.cat((angle.sin(), angle.cos()), dim=-1)
        return self.narrow(F.mish(self.widen(table.to(weight.dtype))))


class UNet(nn.Module):
    """[B, horizon, action_dim] and one modulation a block -> [B, horizon, action_dim]."""

    def __init__(self, config: DiffusionConfig):
        super().__init__()
        self.step_encoder = StepEncoder(config.diffusion_step_embed_dim)
        pairs = list(pairwise((config.action_dim, *config.down_dims)))
        last = len(pairs) - 1
        self.down_modules = Stack[Level](
            Level(
                inputs,
                outputs,
                nn.Conv1d(outputs, outputs, 3, 2, 1) if i < last else nn.Identity(),
                config,
            )
            for i, (inputs, outputs) in enumerate(pairs)
        )
        deep = config.down_dims[-1]
        self.mid_modules = Stack[ResidualBlock](ResidualBlock(deep, deep, config) for _ in range(2))
        # Every up module upsamples: the reference never reaches its "last" case.
        self.up_modules = Stack[Level](
            Level(2 * deeper, shallower, nn.ConvTranspose1d(shallower, shallower, 4, 2, 1), config)
            for shallower, deeper in reversed(pairs[1:])
        )
        first = config.down_dims[0]
        self.final_conv = nn.Sequential(
            ConvBlock(first, first, config.kernel_size, _FINAL_GROUPS),
            nn.Conv1d(first, config.action_dim, 1),
        )

    def blocks(self) -> list[ResidualBlock]:
        """The residual blocks in the order of ``forward``'s modulations."""
        return [m for m in self.modules() if isinstance(m, ResidualBlock)]

    def forward(self, x: torch.Tensor, modulations: Sequence[torch.Tensor]) -> torch.Tensor:
        x = x.transpose(1, 2)
        pending = iter(modulations)
        skips = []
        for level in self.down_modules:
            x = level.second(level.first(x, next(pending)), next(pending))
            skips.append(x)
            x = level.resample(x)
        for middle in self.mid_modules:
            x = middle(x, next(pending))
        for level in self.up_modules:
            x = torch.cat((x, skips.pop()), dim=1)
            x = level.resample(level.second(level.first(x, next(pending)), next(pending)))
        return self.final_conv(x).transpose(1, 2)
