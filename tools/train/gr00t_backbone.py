# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The Qwen3-VL backbone of GR00T N1.7 for training: batched, differentiable, one fixed layout.

Every sample has the same views at the same size and text padded on the right to one length, so
nothing here is data-dependent and the step compiles. Parameter names are the checkpoint's. The
engine is the reference: test/closed_loop/test_checkpoint_training.py compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class BackboneSize:
    """Sizes as in Qwen3-VL's text_config and vision_config. ``sections`` are mRoPE half-dims."""

    image: int = 128
    patch: int = 16
    merge: int = 2
    vision_hidden: int = 96
    vision_heads: int = 3
    vision_depth: int = 5
    vision_mlp: int = 384
    deepstack: tuple[int, ...] = (2,)
    hidden: int = 128
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    mlp: int = 384
    vocab: int = 384
    theta: float = 10000.0
    sections: tuple[int, int, int] = (6, 5, 5)
    views: int = 2

    @property
    def grid(self) -> int:
        """Patches along one side of a view."""
        return self.image // self.patch

    @property
    def view_tokens(self) -> int:
        return (self.grid // self.merge) ** 2


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-split rotary embedding; x [..., tokens, dim], cos and sin [tokens, dim]."""
    low, high = x.float().chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return (x.float() * cos + turned * sin).to(x.dtype)


class VisionBlock(nn.Module):
    def __init__(self, size: BackboneSize) -> None:
        super().__init__()
        dim = size.vision_hidden
        self.heads = size.vision_heads
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim), "proj": nn.Linear(dim, dim)})
        self.mlp = nn.ModuleDict(
            {
                "linear_fc1": nn.Linear(dim, size.vision_mlp),
                "linear_fc2": nn.Linear(size.vision_mlp, dim),
            }
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        views, tokens, dim = x.shape
        qkv = self.attn["qkv"](self.norm1(x)).view(views, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.attn["proj"](y.transpose(1, 2).reshape(views, tokens, dim))
        h = F.gelu(self.mlp["linear_fc1"](self.norm2(x)), approximate="tanh")
        return x + self.mlp["linear_fc2"](h)


class Merger(nn.Module):
    """Four neighbouring patches to one token. DeepStack's mergers normalise after joining them."""

    def __init__(self, size: BackboneSize, *, norm_after: bool) -> None:
        super().__init__()
        joined = size.vision_hidden * size.merge**2
        self.joined, self.norm_after = joined, norm_after
        self.norm = nn.LayerNorm(joined if norm_after else size.vision_hidden, eps=1e-6)
        self.linear_fc1 = nn.Linear(joined, joined)
        self.linear_fc2 = nn.Linear(joined, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        grouped = (x.shape[0], -1, self.joined)
        x = self.norm(x.reshape(grouped)) if self.norm_after else self.norm(x).reshape(grouped)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class Vision(nn.Module):
    """uint8-derived pixels [views, 3, image, image] in [-1, 1] -> tokens, DeepStack tokens."""

    order: Tensor

    def __init__(self, size: BackboneSize) -> None:
        super().__init__()
        self.size = size
        dim = size.vision_hidden
        self.patch_embed = nn.ModuleDict({"proj": nn.Linear(3 * size.patch**2, dim)})
        # A table of exactly the grid's size: the reference's interpolation is then the identity.
        self.pos_embed = nn.Embedding(size.grid**2, dim)
        self.blocks = nn.ModuleList(VisionBlock(size) for _ in range(size.vision_depth))
        self.merger = Merger(size, norm_after=False)
        self.deepstack_merger_list = nn.ModuleList(
            Merger(size, norm_after=True) for _ in size.deepstack
        )
        order = torch.arange(size.grid**2).view(size.grid, size.grid)
        order = self._group(order[None, None])[0, :, 0]
        cos, sin = self._rotary(order)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _group(self, x: Tensor) -> Tensor:
        """[views, channels, rows, cols] -> [views, rows * cols, channels], by merge group."""
        m = self.size.merge
        views, channels, rows, cols = x.shape
        x = x.view(views, channels, rows // m, m, cols // m, m)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(views, rows * cols, channels)

    def _rotary(self, order: Tensor) -> tuple[Tensor, Tensor]:
        half = self.size.vision_hidden // self.size.vision_heads // 2
        frequency = 10000.0 ** (-torch.arange(0, half, 2).float() / half)
        row = (order // self.size.grid).float()[:, None] * frequency
        col = (order % self.size.grid).float()[:, None] * frequency
        angle = torch.cat((row, col), dim=-1).repeat(1, 2)
        return angle.cos(), angle.sin()

    def forward(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        p, g, m = self.size.patch, self.size.grid, self.size.merge
        x = pixels.view(-1, 3, g // m, m, p, g // m, m, p)
        x = x.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(-1, g * g, 3 * p * p)
        x = self.patch_embed["proj"](x) + self.pos_embed.weight[self.order]
        deep = []
        for i, block in enumerate(self.blocks):
            x = block(x, self.cos, self.sin)
            if i in self.size.deepstack:
                deep.append(self.deepstack_merger_list[self.size.deepstack.index(i)](x))
        return self.merger(x), deep


class TextLayer(nn.Module):
    def __init__(self, size: BackboneSize) -> None:
        super().__init__()
        self.size = size
        dim, q, kv = size.hidden, size.heads * size.head_dim, size.kv_heads * size.head_dim
        self.input_layernorm = nn.RMSNorm(dim, eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(dim, eps=1e-6)
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(dim, q, bias=False),
                "k_proj": nn.Linear(dim, kv, bias=False),
                "v_proj": nn.Linear(dim, kv, bias=False),
                "o_proj": nn.Linear(q, dim, bias=False),
                "q_norm": nn.RMSNorm(size.head_dim, eps=1e-6),
                "k_norm": nn.RMSNorm(size.head_dim, eps=1e-6),
            }
        )
        self.mlp = nn.ModuleDict(
            {
                "gate_proj": nn.Linear(dim, size.mlp, bias=False),
                "up_proj": nn.Linear(dim, size.mlp, bias=False),
                "down_proj": nn.Linear(size.mlp, dim, bias=False),
            }
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        a, s = self.self_attn, self.size
        h = self.input_layernorm(x)
        q = a["q_norm"](a["q_proj"](h).view(batch, length, s.heads, s.head_dim)).transpose(1, 2)
        k = a["k_norm"](a["k_proj"](h).view(batch, length, s.kv_heads, s.head_dim)).transpose(1, 2)
        v = a["v_proj"](h).view(batch, length, s.kv_heads, s.head_dim).transpose(1, 2)
        repeat = s.heads // s.kv_heads
        k = rotate(k, cos, sin).repeat_interleave(repeat, dim=1)
        v = v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        x = x + a["o_proj"](y.transpose(1, 2).reshape(batch, length, -1))
        h = self.post_attention_layernorm(x)
        m = self.mlp
        return x + m["down_proj"](F.silu(m["gate_proj"](h)) * m["up_proj"](h))


class Text(nn.Module):
    def __init__(self, size: BackboneSize) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab, size.hidden)
        self.layers = nn.ModuleList(TextLayer(size) for _ in range(size.layers))


class Backbone(nn.Module):
    """Qwen3-VL up to the last kept decoder layer, before the final norm.

    prompt: token ids of the part before the instruction, the same for every sample; the image
    placeholders in it are ``image_token``. Text follows, padded on the right: the decoder is
    causal, so pads change nothing before them.
    """

    def __init__(self, size: BackboneSize, prompt: list[int], length: int, image_token: int):
        super().__init__()
        self.size = size
        self.visual = Vision(size)
        self.language_model = Text(size)
        image_at = [i for i, token in enumerate(prompt) if token == image_token]
        self.image_slice = [
            (image_at[v * size.view_tokens], image_at[(v + 1) * size.view_tokens - 1] + 1)
            for v in range(size.views)
        ]
        cos, sin = self._rotary(prompt, length, image_token)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _rotary(self, prompt: list[int], length: int, image_token: int) -> tuple[Tensor, Tensor]:
        side = self.size.grid // self.size.merge
        axes: list[tuple[int, int, int]] = []
        position, index = 0, 0
        while index < length:
            if index < len(prompt) and prompt[index] == image_token:
                axes += [
                    (position, position + r, position + c) for r in range(side) for c in range(side)
                ]
                position, index = position + side, index + side * side
            else:
                axes.append((position,) * 3)
                position, index = position + 1, index + 1
        half = self.size.head_dim // 2
        frequency = self.size.theta ** (-torch.arange(half).double() / half)
        _, rows, cols = self.size.sections
        axis = [
            1 if j % 3 == 1 and j < 3 * rows else 2 if j % 3 == 2 and j < 3 * cols else 0
            for j in range(half)
        ]
        angle = torch.tensor(axes).double()[:, axis] * frequency
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos().float(), angle.sin().float()

    def _place(self, x: Tensor, tokens: Tensor, add: bool) -> Tensor:
        """Put (or add) image tokens [batch, views, n, hidden] into the sequence."""
        parts, at = [], 0
        for view, (start, stop) in enumerate(self.image_slice):
            new = tokens[:, view].to(x.dtype)
            parts += [x[:, at:start], x[:, start:stop] + new if add else new]
            at = stop
        return torch.cat([*parts, x[:, at:]], dim=1)

    def forward(self, pixels: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """pixels [batch, views, 3, s, s], ids [batch, length] -> features [batch, length, hidden]
        and the vision tower's own tokens [batch, views, n, hidden]."""
        batch, views = pixels.shape[:2]
        tokens, deep = self.visual(pixels.flatten(0, 1))
        shape = (batch, views, -1, self.size.hidden)
        tokens = tokens.view(shape)
        x = self._place(self.language_model.embed_tokens(ids), tokens, add=False)
        for i, layer in enumerate(self.language_model.layers):
            x = layer(x, self.cos, self.sin)
            if i < len(deep):
                x = self._place(x, deep[i].view(shape), add=True)
        return x, tokens
