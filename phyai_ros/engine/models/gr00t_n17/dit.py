# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action head's transformer blocks: plain ones over the backbone's tokens, and modulated ones
(AdaLN) over state and actions, cross-attending on even blocks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import attention, merge_heads, split_heads, zero_rows
from phyai_ros.engine.layers.mlp import sinusoid
from phyai_ros.engine.layers.norm import ada_layer_norm, layer_norm
from phyai_ros.engine.models.gr00t_n17.config import DitConfig

_EPS = 1e-5
_OUT_EPS = 1e-6
_TIME_CHANNELS = 256

KeyValue = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one cross-attention block, [B, heads, L, head_dim] each."""
Modulation = tuple[torch.Tensor, torch.Tensor]
"""1 + scale and shift, [1 or B, 1, inner] each."""


class Attention(nn.Module):
    """Queries of [B, Lq, query], keys and values of a context [B, Lk, context or query];
    diffusers' names."""

    def __init__(self, query: int, config: DitConfig, context: int | None = None):
        super().__init__()
        self.heads = config.heads
        self.to_q = nn.Linear(query, config.inner)
        self.to_k = nn.Linear(context or query, config.inner)
        self.to_v = nn.Linear(context or query, config.inner)
        self.to_out = nn.ModuleList([nn.Linear(config.inner, query)])

    def key_value(self, context: torch.Tensor) -> KeyValue:
        return (
            split_heads(self.to_k(context), self.heads),
            split_heads(self.to_v(context), self.heads),
        )

    def forward(
        self,
        x: torch.Tensor,
        key_value: KeyValue,
        mask: torch.Tensor | None = None,
        attends: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """attends: bool [B, 1, 1], False for a request that has no key to attend to."""
        q = split_heads(self.to_q(x), self.heads)
        out = merge_heads(attention(q, *key_value, mask=mask))
        if attends is not None:
            out = zero_rows(out, attends)
        projected: torch.Tensor = self.to_out[0](out)
        return projected


class _Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.proj = nn.Linear(inputs, outputs)


class FeedForward(nn.Module):
    """[B, L, dim] -> the same; gelu (tanh) at four times the width."""

    def __init__(self, dim: int):
        super().__init__()
        self.net = nn.ModuleList(
            [_Projection(dim, 4 * dim), nn.Identity(), nn.Linear(4 * dim, dim)]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.net[0]
        assert isinstance(inner, _Projection)
        hidden = F.gelu(inner.proj(x), approximate="tanh")
        out: torch.Tensor = self.net[2](hidden)
        return out


class PlainBlock(nn.Module):
    """x + attn(LN x), x + ff(LN x)."""

    def __init__(self, config: DitConfig):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.inner, eps=_EPS)
        self.attn1 = Attention(config.inner, config)
        self.norm3 = nn.LayerNorm(config.inner, eps=_EPS)
        self.ff = FeedForward(config.inner)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        normed = _normed(self.norm1, x)
        x = x + self.attn1(normed, self.attn1.key_value(normed), mask)
        out: torch.Tensor = x + self.ff(_normed(self.norm3, x))
        return out


class SelfAttentionTransformer(nn.Module):
    """The reference attends without a mask, padded rows included."""

    def __init__(self, config: DitConfig):
        super().__init__()
        self.transformer_blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.layers))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        for block in self.transformer_blocks:
            x = block(x, mask)
        return x


class _AdaNorm(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.linear = nn.Linear(dim, 2 * dim)


class ModulatedBlock(nn.Module):
    """h + attn(AdaLN h), then h + ff(LN h), on the stream [B, 1 + horizon, inner]. context: width
    of what it cross-attends to, None where it attends to itself."""

    def __init__(self, config: DitConfig, context: int | None):
        super().__init__()
        self.norm1 = _AdaNorm(config.inner)
        self.attn1 = Attention(config.inner, config, context)
        self.ff = FeedForward(config.inner)

    def forward(
        self,
        x: torch.Tensor,
        modulation: Modulation,
        key_value: KeyValue | None,
        mask: torch.Tensor | None,
        attends: torch.Tensor | None,
    ) -> torch.Tensor:
        normed = ada_layer_norm(x, *modulation, _EPS)
        if key_value is None:
            key_value = self.attn1.key_value(normed)
        x = x + self.attn1(normed, key_value, mask, attends)
        normed = F.layer_norm(x, x.shape[-1:], eps=_EPS).to(normed.dtype)
        out: torch.Tensor = x + self.ff(normed)
        return out


class _TimestepEmbedder(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.linear_1 = nn.Linear(_TIME_CHANNELS, dim)
        self.linear_2 = nn.Linear(dim, dim)


class _TimestepEncoder(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.timestep_embedder = _TimestepEmbedder(dim)


class DiT(nn.Module):
    """Checkpoint keys ``action_head.model.*``."""

    def __init__(self, config: DitConfig, context: int):
        super().__init__()
        self.config = config
        self.timestep_encoder = _TimestepEncoder(config.inner)
        self.transformer_blocks = nn.ModuleList(
            ModulatedBlock(config, None if self.is_self(i) else context)
            for i in range(config.layers)
        )
        self.proj_out_1 = nn.Linear(config.inner, 2 * config.inner)
        self.proj_out_2 = nn.Linear(config.inner, config.output)

    def modulated(self) -> Iterator[ModulatedBlock]:
        for block in self.transformer_blocks:
            assert isinstance(block, ModulatedBlock)
            yield block

    def is_self(self, block: int) -> bool:
        """Whether a block attends to the stream itself: every second one where they interleave."""
        return self.config.interleave and block % 2 == 1

    def timestep_embedding(self, buckets: torch.Tensor) -> torch.Tensor:
        """integer [N] -> float32 [N, inner]. Weights are widened: this runs once a load."""
        embedder = self.timestep_encoder.timestep_embedder
        waves = sinusoid(buckets, _TIME_CHANNELS, divisor=_TIME_CHANNELS // 2 - 1, cos_first=True)
        return _wide(embedder.linear_2, F.silu(_wide(embedder.linear_1, waves)))

    def modulations(self, embedding: torch.Tensor) -> tuple[list[Modulation], Modulation]:
        """float32 [N, inner] -> per block and for the output (1 + scale, shift), [N, 1, inner] in
        the weights' dtype. Blocks store [scale, shift], the output [shift, scale]."""
        condition = F.silu(embedding)
        dtype = self.proj_out_2.weight.dtype
        blocks = []
        for block in self.modulated():
            scale, shift = _wide(block.norm1.linear, condition)[:, None].chunk(2, dim=-1)
            blocks.append(((1 + scale).to(dtype), shift.to(dtype)))
        shift, scale = _wide(self.proj_out_1, condition)[:, None].chunk(2, dim=-1)
        return blocks, ((1 + scale).to(dtype), shift.to(dtype))

    def output(self, x: torch.Tensor, modulation: Modulation) -> torch.Tensor:
        """x [B, 1 + horizon, inner], the last modulation -> [B, 1 + horizon, output]."""
        out: torch.Tensor = self.proj_out_2(ada_layer_norm(x, *modulation, _OUT_EPS))
        return out


def _normed(norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, norm.weight, norm.bias, norm.eps)


def _wide(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, linear.weight.float(), linear.bias.float())
