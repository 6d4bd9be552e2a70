# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Qwen3's decoder with interleaved multimodal RoPE, cut after a layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from phyai_ros.engine.layers import mlp, rope
from phyai_ros.engine.layers.attention import attention, merge_heads, split_heads, zero_rows
from phyai_ros.engine.layers.norm import rms_norm
from phyai_ros.engine.models.gr00t_n17.backbone import TextConfig


class _RmsNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps)

    def wide(self, x: torch.Tensor) -> torch.Tensor:
        """The same, left in float32."""
        return rms_norm(x, self.weight.float(), self.eps)


class _Attention(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.q_proj = nn.Linear(config.hidden, q, bias=False)
        self.k_proj = nn.Linear(config.hidden, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden, kv, bias=False)
        self.o_proj = nn.Linear(q, config.hidden, bias=False)
        self.q_norm = _RmsNorm(config.head_dim, config.eps)
        self.k_norm = _RmsNorm(config.head_dim, config.eps)

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
        real: torch.Tensor | None,
    ) -> torch.Tensor:
        v = split_heads(self.v_proj(x), self.kv_heads)
        q = self.q_norm.wide(split_heads(self.q_proj(x), self.heads))
        k = self.k_norm.wide(split_heads(self.k_proj(x), self.kv_heads))
        q, k = rope.rotate(q, cos, sin).to(v.dtype), rope.rotate(k, cos, sin).to(v.dtype)
        out = merge_heads(attention(q, k, v, mask=mask, causal=mask is None))
        if real is not None:
            out = zero_rows(out, real)
        projected: torch.Tensor = self.o_proj(out)
        return projected


class _Mlp(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return mlp.gated(x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)


class _Layer(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        self.input_layernorm = _RmsNorm(config.hidden, config.eps)
        self.post_attention_layernorm = _RmsNorm(config.hidden, config.eps)
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(config)

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None,
        real: torch.Tensor | None,
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, real)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class TextModel(nn.Module):
    """Checkpoint keys ``language_model.*``. The final norm is part of the checkpoint and unused:
    GR00T reads the last kept layer's output before it."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        self.norm = _RmsNorm(config.hidden, config.eps)

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        real: torch.Tensor | None,
        image_index: torch.Tensor,
        image_tokens: torch.Tensor,
        deepstack: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """-> [B, L, hidden].

        ids [B, L], left padded. positions [3, B, L]. real: bool [B, L], None when nothing is
        padded. image_index [image tokens]: where in the flattened [B*L] they stand. image_tokens
        and each of deepstack [image tokens, hidden].
        """
        x = self.embed_tokens(ids).float()
        shape = x.shape
        x = x.flatten(0, 1).index_copy(0, image_index, image_tokens.float()).view(shape)
        inv_freq = rope.inverse_frequencies(self.config.head_dim, self.config.rope_theta, x.device)
        angles = rope.interleaved_mrope(positions, inv_freq, self.config.mrope_section)
        cos, sin = rope.tables(angles.unsqueeze(1), torch.float32)
        mask, rows = (None, None) if real is None else _causal_mask(real)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, mask, rows)
            # After the last kept layer DeepStack would come too late to be read.
            if i < len(deepstack) and i < len(self.layers) - 1:
                feature = deepstack[i].to(x.dtype)
                x = x.flatten(0, 1).index_add(0, image_index, feature).view(shape)
        return x


def _causal_mask(real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """-> attention mask [B, 1, L, L], True = attend; and the rows [B, L, 1] that attend to
    anything. Padded rows attend to themselves, so that no row is empty, and are zeroed after."""
    length = real.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=real.device).tril()
    own = torch.eye(length, dtype=torch.bool, device=real.device)
    return ((causal & real[:, None, :]) | own)[:, None], real[..., None]
