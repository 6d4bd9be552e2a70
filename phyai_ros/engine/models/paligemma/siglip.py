# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The SigLIP image tower (arXiv 2303.15343), without its pooling head.

In half precision the residual stream stays in float32; products take rounded inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from phyai_ros.engine.models.paligemma.config import SiglipConfig


class Siglip(nn.Module):
    """images [B, 3, S, S] in [-1, 1] -> image tokens [B, patches, width]."""

    def __init__(self, config: SiglipConfig):
        super().__init__()
        self.config = config
        self.patch = nn.Conv2d(3, config.width, config.patch_size, config.patch_size)
        self.position = nn.Parameter(torch.empty(config.patches, config.width))
        nn.init.normal_(self.position, std=0.02)
        self.layers = nn.ModuleList(SiglipBlock(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width, config.eps)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self._patches(images).to(self.patch.weight.dtype)
        x = F.linear(patches, self.patch.weight.flatten(1), self.patch.bias).float()
        x = x + self.position
        for layer in self.layers:
            x = layer(x)
        return norm(self.norm, x)

    def _patches(self, images: torch.Tensor) -> torch.Tensor:
        """[B, 3, S, S] -> [B, patches, 3 * p * p]: a stride-p convolution is a linear map of
        patches in (channel, row, column) order."""
        size = self.config.patch_size
        batch, channels, height, width = images.shape
        rows, columns = height // size, width // size
        x = images.reshape(batch, channels, rows, size, columns, size)
        return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)


class SiglipBlock(nn.Module):
    """Pre-norm attention and MLP, with biases."""

    def __init__(self, config: SiglipConfig):
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width, config.eps)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, config.eps)
        self.up = nn.Linear(config.width, config.mlp_width)
        self.down = nn.Linear(config.mlp_width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self._attention(norm(self.norm1, x, self.qkv.weight.dtype))
        h = F.gelu(self.up(norm(self.norm2, x, self.up.weight.dtype)), approximate="tanh")
        return x + self.down(h)

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.output(y.transpose(1, 2).reshape(batch, tokens, width))


def norm(layer: nn.LayerNorm, x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A layer norm whose statistics and weights are float32 whatever x is."""
    y = F.layer_norm(x.float(), layer.normalized_shape, layer.weight, layer.bias, layer.eps)
    return y.to(x.dtype if dtype is None else dtype)
