# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT (arXiv 2304.13705) as LeRobot ships it: ResNet features, a transformer encoder over them,
and a decoder with one learned query an action row. One pass; the latent is zero at inference.

Module names follow the checkpoint's keys (below ``model.``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import attention, merge_heads, split_heads
from phyai_ros.engine.layers.resnet import ResNet
from phyai_ros.engine.layers.stack import Stack
from phyai_ros.engine.models.act.config import ActConfig

Branch = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class ActInputs:
    """images: one [B, 3, H, W] a camera, normalised, in the config's order. state [B, state_dim]
    and env [B, env_dim], normalised; None where the policy has none."""

    images: tuple[torch.Tensor, ...]
    state: torch.Tensor | None
    env: torch.Tensor | None
    batch: int


@dataclass(frozen=True)
class ActPrefix:
    """memory: encoder output [B, S, D]. keys, values: of every decoder layer's cross-attention,
    [B, heads, S, D / heads]."""

    memory: torch.Tensor
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class ActConstants:
    """The first decoder layer up to its cross-attention. Its input is zeros, so nothing of it
    depends on the observation. residual [1, H, D]; query [1, heads, H, D / heads]."""

    residual: torch.Tensor
    query: torch.Tensor


class Attention(nn.Module):
    """Multi-head attention with fused input weights, [q; k; v]."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * dim))
        self.out_proj = nn.Linear(dim, dim)

    def project(self, x: torch.Tensor, part: int) -> torch.Tensor:
        """part 0, 1, 2: queries, keys, values, split into heads."""
        weight, bias = self.in_proj_weight.chunk(3)[part], self.in_proj_bias.chunk(3)[part]
        return split_heads(F.linear(x, weight, bias), self.heads)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q [B, heads, Lq, d], k and v [B, heads, Lk, d] -> [B, Lq, D]."""
        return self.out_proj(merge_heads(attention(q, k, v)))

    def forward(self, qk: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Self-attention: queries and keys of qk, values of v."""
        return self.attend(self.project(qk, 0), self.project(qk, 1), self.project(v, 2))


class FeedForward(nn.Module):
    """What encoder and decoder layers share: the feed-forward part and the norm's place."""

    def __init__(self, config: ActConfig):
        super().__init__()
        self.linear1 = nn.Linear(config.dim_model, config.dim_feedforward)
        self.linear2 = nn.Linear(config.dim_feedforward, config.dim_model)
        self.activation = F.relu if config.feedforward_activation == "relu" else F.gelu
        self.pre_norm = config.pre_norm

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, L, D] -> the same."""
        return self.linear2(self.activation(self.linear1(x)))

    def block(self, x: torch.Tensor, norm: nn.Module, branch: Branch) -> torch.Tensor:
        """Residual branch with the norm before or after it."""
        if self.pre_norm:
            return x + branch(norm(x))
        return norm(x + branch(x))


class EncoderLayer(FeedForward):
    """x [B, S, D] and positions [1, S, D] -> [B, S, D]."""

    def __init__(self, config: ActConfig):
        super().__init__(config)
        self.self_attn = Attention(config.dim_model, config.n_heads)
        self.norm1 = nn.LayerNorm(config.dim_model)
        self.norm2 = nn.LayerNorm(config.dim_model)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.block(x, self.norm1, lambda y: self.self_attn(y + positions, y))
        return self.block(x, self.norm2, self.feed_forward)


class DecoderLayer(FeedForward):
    """In two halves, for the first layer's up to its cross-attention is a constant: x [B, H, D] and
    positions [1, H, D] -> x and queries [B, heads, H, D / heads] -> x."""

    def __init__(self, config: ActConfig):
        super().__init__(config)
        self.self_attn = Attention(config.dim_model, config.n_heads)
        self.multihead_attn = Attention(config.dim_model, config.n_heads)
        self.norm1 = nn.LayerNorm(config.dim_model)
        self.norm2 = nn.LayerNorm(config.dim_model)
        self.norm3 = nn.LayerNorm(config.dim_model)

    def before_cross(
        self, x: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Self-attention -> the residual stream and the cross-attention's queries."""
        x = self.block(x, self.norm1, lambda y: self.self_attn(y + positions, y))
        y = self.norm2(x) if self.pre_norm else x
        return x, self.multihead_attn.project(y + positions, 0)

    def after_cross(
        self, x: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        query = query.expand(key.shape[0], -1, -1, -1)
        x = x + self.multihead_attn.attend(query, key, value)
        x = x if self.pre_norm else self.norm2(x)
        return self.block(x, self.norm3, self.feed_forward)


class Encoder(nn.Module):
    """The layers, and a norm behind them where they are pre-norm."""

    def __init__(self, config: ActConfig):
        super().__init__()
        self.layers = Stack[EncoderLayer](
            EncoderLayer(config) for _ in range(config.n_encoder_layers)
        )
        self.norm = nn.LayerNorm(config.dim_model) if config.pre_norm else nn.Identity()

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, positions)
        return self.norm(x)


class Decoder(nn.Module):
    """The layers and their last norm; ``ActModel.decode`` runs them."""

    def __init__(self, config: ActConfig):
        super().__init__()
        self.layers = Stack[DecoderLayer](
            DecoderLayer(config) for _ in range(config.n_decoder_layers)
        )
        self.norm = nn.LayerNorm(config.dim_model)


class ActModel(nn.Module):
    """The inference part of ACT; the training-only VAE encoder is left out."""

    def __init__(self, config: ActConfig):
        super().__init__()
        self.config = config
        dim = config.dim_model
        if config.cameras:
            self.backbone = ResNet(
                config.vision_backbone,
                width=config.backbone_width,
                dilate_last=config.replace_final_stride_with_dilation,
            )
            self.encoder_img_feat_input_proj = nn.Conv2d(self.backbone.channels, dim, 1)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        if config.state_dim:
            self.encoder_robot_state_input_proj = nn.Linear(config.state_dim, dim)
        if config.env_dim:
            self.encoder_env_state_input_proj = nn.Linear(config.env_dim, dim)
        self.encoder_latent_input_proj = nn.Linear(config.latent_dim, dim)
        vectors = 1 + bool(config.state_dim) + bool(config.env_dim)
        self.encoder_1d_feature_pos_embed = nn.Embedding(vectors, dim)
        self.decoder_pos_embed = nn.Embedding(config.chunk_size, dim)
        self.action_head = nn.Linear(dim, config.action_dim)

    def vision(self, inputs: ActInputs) -> tuple[torch.Tensor, ...]:
        """-> one feature map [B, C, h, w] a camera; equal sizes run as one batch."""
        images = inputs.images
        if not images:
            return ()
        if len({image.shape[1:] for image in images}) > 1:
            return tuple(self.backbone(image) for image in images)
        return self.backbone(torch.cat(images)).chunk(len(images))

    def tokens(
        self, inputs: ActInputs, features: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> encoder tokens [B, S, D] and their positions [1, S, D]: latent, state, environment,
        then each camera's pixels row by row."""
        # The latent is zero, so its projection is the bias alone.
        latent = self.encoder_latent_input_proj.bias.expand(inputs.batch, 1, -1)
        tokens = [latent]
        if inputs.state is not None:
            tokens.append(self.encoder_robot_state_input_proj(inputs.state)[:, None])
        if inputs.env is not None:
            tokens.append(self.encoder_env_state_input_proj(inputs.env)[:, None])
        positions = [self.encoder_1d_feature_pos_embed.weight[None]]
        for feature in features:
            tokens.append(self.encoder_img_feat_input_proj(feature).flatten(2).transpose(1, 2))
            height, width = feature.shape[2:]
            table = sine_positions(height, width, self.config.dim_model, feature.device)
            positions.append(table.to(feature.dtype)[None])
        return torch.cat(tokens, dim=1), torch.cat(positions, dim=1)

    def prefix(self, inputs: ActInputs, features: Sequence[torch.Tensor]) -> ActPrefix:
        """Encoder, and keys and values of every cross-attention."""
        x, positions = self.tokens(inputs, features)
        memory = self.encoder(x, positions)
        placed = memory + positions
        crosses = [layer.multihead_attn for layer in self.decoder.layers]
        return ActPrefix(
            memory,
            tuple(cross.project(placed, 1) for cross in crosses),
            tuple(cross.project(memory, 2) for cross in crosses),
        )

    def constants(self, steps: int) -> ActConstants:
        """steps: not looked at, there is one pass."""
        positions = self.decoder_pos_embed.weight[None]
        residual, query = self.decoder.layers.at(0).before_cross(
            torch.zeros_like(positions), positions
        )
        return ActConstants(residual, query)

    def decode(self, prefix: ActPrefix, constants: ActConstants) -> torch.Tensor:
        """-> decoder output [B, H, D], after its final norm."""
        positions = self.decoder_pos_embed.weight[None]
        x, query = constants.residual, constants.query
        for i, layer in enumerate(self.decoder.layers):
            if i > 0:
                x, query = layer.before_cross(x, positions)
            x = layer.after_cross(x, query, prefix.keys[i], prefix.values[i])
        return self.decoder.norm(x)

    def predict(
        self, x: torch.Tensor, step: int, prefix: ActPrefix, constants: ActConstants
    ) -> torch.Tensor:
        """The actions themselves, [B, H, action_dim]; x and step do not matter."""
        return self.action_head(self.decode(prefix, constants))


@lru_cache(maxsize=32)
def sine_positions(height: int, width: int, dim: int, device: torch.device) -> torch.Tensor:
    """float32 [height * width, dim]: half for y, half for x, sin and cos interleaved, of
    coordinates 1..n scaled to 2 pi (DETR, arXiv 2005.12872). A constant of the image size."""
    half = dim // 2
    ones = torch.ones(1, height, width, device=device)
    halves = []
    for axis in (1, 2):
        place = ones.cumsum(axis)
        last = place[:, -1:, :] if axis == 1 else place[:, :, -1:]
        angle = place / (last + 1e-6) * (2 * math.pi)
        exponent = 2 * (torch.arange(half, dtype=torch.float32, device=device) // 2) / half
        angle = angle.unsqueeze(-1) / 10000**exponent
        pairs = torch.stack((angle[..., 0::2].sin(), angle[..., 1::2].cos()), dim=-1)
        halves.append(pairs.flatten(3))
    return torch.cat(halves, dim=-1).flatten(0, 2)
