# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Gemma decoder layers, for the language model and for the action expert.

Neither is causal here: which keys a query sees is a mask over keys alone, so the queries that
share a key-value head fold into one long query and no key or value is ever repeated.

In half precision the residual stream stays in float32; products take rounded inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import nn

from phyai_ros.engine.layers import rope as rope_
from phyai_ros.engine.layers.attention import attention, merge_heads, split_heads
from phyai_ros.engine.layers.norm import rms_norm_one_plus
from phyai_ros.engine.models.paligemma.config import GemmaConfig


class Rope(NamedTuple):
    """Cosine and sine of rotary positions, float32 [B, 1, T, head_dim]."""

    cos: torch.Tensor
    sin: torch.Tensor


class KeyValue(NamedTuple):
    """Of one layer, keys after rotation: [B, kv_heads, T, head_dim] each."""

    key: torch.Tensor
    value: torch.Tensor


def rope(positions: torch.Tensor, config: GemmaConfig) -> Rope:
    """Positions [B, T] -> tables, always in float32: bfloat16 has no integers above 256."""
    frequency = rope_.inverse_frequencies(config.head_dim, config.rope_theta, positions.device)
    angles = positions[:, None, :, None].float() * frequency
    return Rope(*rope_.tables(angles, torch.float32))


class RmsNorm(nn.Module):
    """x / rms(x) * (1 + weight), in float32; the residual has no gate."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(
        self, x: torch.Tensor, modulation: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return rms_norm_one_plus(x, self.weight, self.eps), None


class AdaptiveRmsNorm(nn.Module):
    """x / rms(x) * (1 + scale) + shift, in float32, and the residual's gate.

    scale, shift and gate are ``dense(condition)``; ``modulation`` [B or 1, T or 1, 3 * width] is
    given instead, because it does not depend on x.
    """

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.eps = eps
        self.dense = nn.Linear(width, 3 * width)
        nn.init.zeros_(self.dense.weight)

    def forward(
        self, x: torch.Tensor, modulation: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if modulation is None:
            raise ValueError("an adaptive norm needs its modulation")
        scale, shift, gate = modulation.float().chunk(3, dim=-1)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + scale) + shift).to(x.dtype), gate


class Attention(nn.Module):
    """Multi-query attention without biases; query, key and value are one product."""

    def __init__(self, config: GemmaConfig):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        rows = (config.heads + 2 * config.kv_heads) * config.head_dim
        self.qkv = nn.Linear(config.width, rows, bias=False)
        self.output = nn.Linear(config.heads * config.head_dim, config.width, bias=False)

    def project(self, x: torch.Tensor, positions: Rope) -> tuple[torch.Tensor, KeyValue]:
        """x [B, T, width] -> rotated queries [B, heads, T, head_dim], and keys and values."""
        y = split_heads(self.qkv(x), self.heads + 2 * self.kv_heads)
        q, k, v = y.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        return rotate(q, positions), KeyValue(rotate(k, positions), v)

    def keys_values(self, x: torch.Tensor, positions: Rope) -> KeyValue:
        """``project`` without the queries."""
        weight = self.qkv.weight[self.heads * self.head_dim :]
        k, v = split_heads(F.linear(x, weight), 2 * self.kv_heads).chunk(2, dim=1)
        return KeyValue(rotate(k, positions), v)

    def forward(self, q: torch.Tensor, kv: KeyValue, mask: torch.Tensor) -> torch.Tensor:
        """mask: bool [B, 1, 1, keys], True where a key exists. -> [B, T, width]"""
        folded = q.reshape(q.shape[0], self.kv_heads, -1, self.head_dim)
        y = attention(folded, kv.key, kv.value, mask=mask).reshape(q.shape)
        return self.output(merge_heads(y))


class GatedMlp(nn.Module):
    """down(gelu_tanh(gate(x)) * up(x)); gate and up are one product."""

    def __init__(self, config: GemmaConfig):
        super().__init__()
        self.gate_up = nn.Linear(config.width, 2 * config.mlp_width, bias=False)
        self.down = nn.Linear(config.mlp_width, config.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class GemmaBlock(nn.Module):
    """One decoder layer, with plain or adaptive norms."""

    def __init__(self, config: GemmaConfig, adaptive: bool = False):
        super().__init__()
        norm = AdaptiveRmsNorm if adaptive else RmsNorm
        self.norm1 = norm(config.width, config.eps)
        self.attention = Attention(config)
        self.norm2 = norm(config.width, config.eps)
        self.mlp = GatedMlp(config)

    @property
    def dtype(self) -> torch.dtype:
        """Of the products' inputs."""
        return self.attention.qkv.weight.dtype

    def forward(
        self,
        x: torch.Tensor,
        positions: Rope,
        mask: torch.Tensor,
        past: KeyValue | None = None,
        modulation: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None),
    ) -> tuple[torch.Tensor, KeyValue]:
        """x [B, T, width]; past: keys and values that come before x's own; mask over both.

        Returns x after the layer, and x's own keys and values.
        """
        h, gate = self.norm1(x, modulation[0])
        q, own = self.attention.project(h.to(self.dtype), positions)
        x = residual(x, self.attention(q, extend(past, own), mask), gate)
        h, gate = self.norm2(x, modulation[1])
        return residual(x, self.mlp(h.to(self.dtype)), gate), own

    def keys_values(
        self, x: torch.Tensor, positions: Rope, modulation: torch.Tensor | None = None
    ) -> KeyValue:
        """What later queries need of this layer; all that is needed of the last one."""
        return self.attention.keys_values(self.norm1(x, modulation)[0].to(self.dtype), positions)


class GemmaStack(nn.ModuleList):
    """Layers in order."""

    def __iter__(self) -> Iterator[GemmaBlock]:
        return cast("Iterator[GemmaBlock]", super().__iter__())


def rotate(x: torch.Tensor, positions: Rope) -> torch.Tensor:
    """x [B, heads, T, head_dim] -> the same, rotated in float32, in x's dtype."""
    return rope_.rotate(x.float(), *positions).to(x.dtype)


def extend(past: KeyValue | None, own: KeyValue) -> KeyValue:
    """Keys and values of two pieces, one behind the other along T."""
    if past is None:
        return own
    return KeyValue(*(torch.cat(pair, dim=2) for pair in zip(past, own, strict=True)))


def residual(x: torch.Tensor, branch: torch.Tensor, gate: torch.Tensor | None) -> torch.Tensor:
    """x + branch, or x + branch * gate: x and branch [B, T, width], gate broadcast to them."""
    return x + branch if gate is None else torch.addcmul(x, branch.to(x.dtype), gate.to(x.dtype))
