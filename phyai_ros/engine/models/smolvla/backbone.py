# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLM's parts: the image tower with its connector, and the decoder layers that both the
language model and SmolVLA's action expert are made of. Module names follow the checkpoint's keys.

In bfloat16 every operation rounds where the reference rounds: an error of the same size but
elsewhere is not smaller than the reference's own.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import (
    attention,
    attention_float32_logits,
    merge_heads,
    split_heads,
)
from phyai_ros.engine.layers.stack import Stack
from phyai_ros.engine.models.smolvla.config import TextConfig, VisionConfig, VlmConfig

Rotary = tuple[torch.Tensor, torch.Tensor]
"""cos and sin, float32 [B, 1, L, head_dim / 2]."""


class VisionAttention(nn.Module):
    """[B, patches, hidden] -> the same; every patch sees every patch."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        linear = partial(nn.Linear, config.hidden_size, config.hidden_size)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (linear() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (split_heads(p(x), self.heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(merge_heads(attention(q, k, v)))


class VisionMlp(nn.Module):
    """[B, patches, hidden] -> the same; gelu (tanh)."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class VisionLayer(nn.Module):
    """Pre-norm attention and MLP, [B, patches, hidden] -> the same."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = VisionAttention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = VisionMlp(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


def position_line(side: int, trained: int) -> list[int]:
    """Which of the tower's ``trained`` positions along a side each of ``side`` patches takes: the
    one whose share of the side its start falls into (arXiv 2307.06304), in the reference's float32,
    whose rounding moves some patches where neither number is a power of two."""
    starts = torch.arange(side, dtype=torch.float32) * (1.0 / torch.tensor(side))
    shares = torch.arange(1 / trained, 1.0, 1 / trained)
    line: list[int] = torch.bucketize(starts.clamp(max=1.0 - 1e-6), shares, right=True).tolist()
    return line


class VisionEmbeddings(nn.Module):
    """[B, 3, S, S] -> patches with their positions, [B, patches, hidden]."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.patch_embedding = nn.Conv2d(
            3, config.hidden_size, config.patch_size, config.patch_size
        )
        self.trained_side = config.side
        self.position_embedding = nn.Embedding(config.side**2, config.hidden_size)

    def arrange(self, side: int) -> None:
        """Lay the loaded positions out for images of side x side patches."""
        line = position_line(side, self.trained_side)
        if self.position_embedding.weight.is_meta or line == list(range(self.trained_side)):
            return
        rows = torch.tensor(line)
        places = (rows[:, None] * self.trained_side + rows).flatten()
        weight = self.position_embedding.weight.detach()
        self.position_embedding = nn.Embedding.from_pretrained(weight[places.to(weight.device)])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.patch_embedding(images).flatten(2).transpose(1, 2)
        return patches + self.position_embedding.weight


class VisionEncoder(nn.Module):
    """The layers in order."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.layers = Stack[VisionLayer](
            VisionLayer(config) for _ in range(config.num_hidden_layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class VisionTower(nn.Module):
    """[B, 3, S, S] in [-1, 1] -> [B, patches, hidden]."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.embeddings = VisionEmbeddings(config)
        self.encoder = VisionEncoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        images = images.to(self.embeddings.patch_embedding.weight.dtype)
        return self.post_layernorm(self.encoder(self.embeddings(images)))


class Connector(nn.Module):
    """Pixel shuffle (each s x s square of patches becomes one token) and a projection."""

    def __init__(self, config: VlmConfig, side: int):
        """side: patches along a side of the image."""
        super().__init__()
        self.side, self.scale = side, config.scale_factor
        width = config.vision.hidden_size * self.scale**2
        linear = nn.Linear(width, config.text.hidden_size, bias=False)
        self.modality_projection = nn.ModuleDict({"proj": linear})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, side^2, C] -> [B, (side / s)^2, hidden]."""
        return self.modality_projection["proj"](self.shuffled(x))

    def shuffled(self, x: torch.Tensor) -> torch.Tensor:
        """[B, side^2, C] -> [B, (side / s)^2, s^2 C]."""
        tokens = self.side // self.scale
        x = x.unflatten(1, (tokens, self.scale, tokens, self.scale))
        return x.transpose(2, 3).flatten(3).flatten(1, 2)


class DecoderAttention(nn.Module):
    """Weights only: who attends to what is the model's business. context: width of what keys and
    values are projected from."""

    def __init__(self, text: TextConfig, hidden: int, context: int):
        super().__init__()
        self.heads, self.kv_heads = text.num_attention_heads, text.num_key_value_heads
        queries, keys = self.heads * text.head_dim, self.kv_heads * text.head_dim
        self.q_proj = nn.Linear(hidden, queries, bias=False)
        self.k_proj = nn.Linear(context, keys, bias=False)
        self.v_proj = nn.Linear(context, keys, bias=False)
        self.o_proj = nn.Linear(queries, hidden, bias=False)

    def query(self, x: torch.Tensor) -> torch.Tensor:
        return split_heads(self.q_proj(x.to(self.q_proj.weight.dtype)), self.heads)

    def key(self, x: torch.Tensor) -> torch.Tensor:
        return split_heads(self.k_proj(x.to(self.k_proj.weight.dtype)), self.kv_heads)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return split_heads(self.v_proj(x.to(self.v_proj.weight.dtype)), self.kv_heads)


class GatedMlp(nn.Module):
    """down(silu(gate(x)) * up(x)), [B, L, hidden] -> the same."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.gate_proj.weight.dtype)
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class RmsNorm(nn.Module):
    """weight * x / rms(x), statistics in float32; x's dtype."""

    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The first layer reads float32 embeddings whatever the weights are.
        weight = self.weight.to(x.dtype)
        if x.dtype == torch.float32:
            return F.rms_norm(x, (x.shape[-1],), weight, self.eps)
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(
            x.dtype
        )


class DecoderLayer(nn.Module):
    """A Llama layer: norm, attention, norm, gated MLP."""

    def __init__(
        self, text: TextConfig, hidden: int, intermediate: int, context: int | None = None
    ):
        super().__init__()
        self.input_layernorm = RmsNorm(hidden, text.rms_norm_eps)
        self.self_attn = DecoderAttention(text, hidden, hidden if context is None else context)
        self.post_attention_layernorm = RmsNorm(hidden, text.rms_norm_eps)
        self.mlp = GatedMlp(hidden, intermediate)

    def finish(
        self,
        x: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """The layer's input and its queries, keys, values -> the layer's output. mask: bool,
        True = attend; every row attends to something."""
        out = self.self_attn.o_proj(merge_heads(attention_float32_logits(q, k, v, mask=mask)))
        x = (out + x).to(out.dtype)
        return x + self.mlp(self.post_attention_layernorm(x))


def rotary(positions: torch.Tensor, head_dim: int) -> Rotary:
    """Positions [B, L] -> tables for ``rotate``."""
    angle = positions.float()[:, None, :, None] / periods(head_dim, positions.device)
    return angle.cos(), angle.sin()


def periods(head_dim: int, device: torch.device) -> torch.Tensor:
    """float32 [head_dim / 2]: wavelengths over 2 pi, 10000^(2 i / head_dim)."""
    i = torch.arange(head_dim // 2, dtype=torch.float32, device=device)
    return 10_000 ** ((2.0 / head_dim) * i)


def rotate(x: torch.Tensor, tables: Rotary) -> torch.Tensor:
    """Half-split rotation of x [B, heads, L, head_dim], in float32, cast back."""
    cos, sin = tables
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.to(x.dtype)
