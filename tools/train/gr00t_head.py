# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7's action head for training: any flow time, several noise draws a sample.

Formulae: specification of GR00T N1.7 (arXiv 2503.14734 and its public code); the parameter names
are the checkpoint's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class HeadSize:
    backbone: int = 128
    inner: int = 128
    heads: int = 4
    layers: int = 6
    hidden: int = 128
    output: int = 128
    vl_layers: int = 2
    vl_heads: int = 4
    state: int = 7
    action: int = 7
    horizon: int = 16
    positions: int = 16
    embodiments: int = 1


class CategoryLinear(nn.Module):
    """y = x W[e] + b[e]; one embodiment is trained, so e is fixed."""

    def __init__(self, categories: int, inputs: int, outputs: int, e: int) -> None:
        super().__init__()
        self.e = e
        self.W = nn.Parameter(torch.randn(categories, inputs, outputs) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(categories, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.W[self.e].T, self.b[self.e])


class CategoryMLP(nn.Module):
    def __init__(self, categories: int, inputs: int, hidden: int, outputs: int, e: int) -> None:
        super().__init__()
        self.layer1 = CategoryLinear(categories, inputs, hidden, e)
        self.layer2 = CategoryLinear(categories, hidden, outputs, e)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(F.relu(self.layer1(x)))


class ActionEncoder(nn.Module):
    def __init__(self, size: HeadSize, e: int) -> None:
        super().__init__()
        self.width = size.inner
        self.W1 = CategoryLinear(size.embodiments, size.action, size.inner, e)
        self.W2 = CategoryLinear(size.embodiments, 2 * size.inner, size.inner, e)
        self.W3 = CategoryLinear(size.embodiments, size.inner, size.inner, e)

    def forward(self, actions: Tensor, bucket: Tensor) -> Tensor:
        a = self.W1(actions)
        half = self.width // 2
        rate = torch.exp(-torch.arange(half, device=a.device) * (math.log(1e4) / half))
        angle = bucket.float()[:, None] * rate
        tau = torch.cat((angle.sin(), angle.cos()), dim=-1).to(a.dtype)
        tau = tau[:, None].expand(-1, a.shape[1], -1)
        return self.W3(F.silu(self.W2(torch.cat((a, tau), dim=-1))))


class Attention(nn.Module):
    def __init__(self, inner: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(inner, inner)
        self.to_k = nn.Linear(context, inner)
        self.to_v = nn.Linear(context, inner)
        self.to_out = nn.ModuleList([nn.Linear(inner, inner)])

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, draws: int = 1
    ) -> Tensor:
        """context may be shared by ``draws`` consecutive rows of x."""
        context = x if context is None else context
        k, v = self._split(self.to_k(context)), self._split(self.to_v(context))
        q = self._split(self.to_q(x))
        if draws > 1:  # fold the draws into the query axis: one key set serves them all
            b, h, n, d = q.shape
            q = q.view(b // draws, draws, h, n, d).transpose(1, 2).reshape(-1, h, draws * n, d)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        if draws > 1:
            y = y.view(b // draws, h, draws, n, d).transpose(1, 2).reshape(b, h, n, d)
        return self.to_out[0](y.transpose(1, 2).flatten(2))


class GeluLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.proj(x), approximate="tanh")


class FeedForward(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        # The middle place is the reference's dropout.
        self.net = nn.Sequential(
            GeluLinear(inner, 4 * inner), nn.Identity(), nn.Linear(4 * inner, inner)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class VLBlock(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn1, self.ff = Attention(dim, dim, heads), FeedForward(dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x), mask=mask)
        return x + self.ff(self.norm3(x))


class VLStack(nn.Module):
    def __init__(self, size: HeadSize) -> None:
        super().__init__()
        self.transformer_blocks = nn.ModuleList(
            VLBlock(size.backbone, size.vl_heads) for _ in range(size.vl_layers)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for block in self.transformer_blocks:
            x = block(x, mask)
        return x


class DiTBlock(nn.Module):
    def __init__(self, size: HeadSize, cross: bool) -> None:
        super().__init__()
        self.norm1 = nn.ModuleDict({"linear": nn.Linear(size.inner, 2 * size.inner)})
        context = size.backbone if cross else size.inner
        self.attn1 = Attention(size.inner, context, size.heads)
        self.ff = FeedForward(size.inner)
        self.width = size.inner

    def forward(
        self, x: Tensor, time: Tensor, context: Tensor | None, mask: Tensor | None, draws: int
    ) -> Tensor:
        scale, shift = self.norm1["linear"](F.silu(time))[:, None].chunk(2, dim=-1)
        y = F.layer_norm(x, (self.width,), eps=1e-5) * (1 + scale) + shift
        x = x + self.attn1(y, context, mask, draws if context is not None else 1)
        return x + self.ff(F.layer_norm(x, (self.width,), eps=1e-5))


class TimeEmbedding(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(256, inner)
        self.linear_2 = nn.Linear(inner, inner)

    def forward(self, encoding: Tensor) -> Tensor:
        return self.linear_2(F.silu(self.linear_1(encoding)))


class DiT(nn.Module):
    def __init__(self, size: HeadSize) -> None:
        super().__init__()
        self.width = size.inner
        self.timestep_encoder = nn.ModuleDict({"timestep_embedder": TimeEmbedding(size.inner)})
        self.transformer_blocks = nn.ModuleList(
            DiTBlock(size, cross=i % 2 == 0) for i in range(size.layers)
        )
        self.proj_out_1 = nn.Linear(size.inner, 2 * size.inner)
        self.proj_out_2 = nn.Linear(size.inner, size.output)

    def time(self, bucket: Tensor) -> Tensor:
        rate = torch.exp(-torch.arange(128, device=bucket.device) * (math.log(1e4) / 127))
        angle = bucket.float()[:, None] * rate
        encoding = torch.cat((angle.cos(), angle.sin()), dim=-1)
        return self.timestep_encoder["timestep_embedder"](encoding)

    def forward(
        self, x: Tensor, bucket: Tensor, vl: Tensor, text: Tensor, image: Tensor, draws: int
    ) -> Tensor:
        time = self.time(bucket)
        for i, block in enumerate(self.transformer_blocks):
            if i % 2:
                x = block(x, time, None, None, draws)
            else:
                x = block(x, time, vl, text if i % 4 == 0 else image, draws)
        shift, scale = self.proj_out_1(F.silu(time))[:, None].chunk(2, dim=-1)
        x = F.layer_norm(x, (self.width,), eps=1e-6) * (1 + scale) + shift
        return self.proj_out_2(x)


class ActionHead(nn.Module):
    def __init__(self, size: HeadSize, embodiment: int = 0) -> None:
        super().__init__()
        self.size = size
        n, e = size.embodiments, embodiment
        self.vlln = nn.LayerNorm(size.backbone)
        self.vl_self_attention = VLStack(size)
        self.state_encoder = CategoryMLP(n, size.state, size.hidden, size.inner, e)
        self.action_encoder = ActionEncoder(size, e)
        self.action_decoder = CategoryMLP(n, size.output, size.hidden, size.action, e)
        self.position_embedding = nn.Embedding(size.positions, size.inner)
        self.model = DiT(size)

    def condition(self, features: Tensor, valid: Tensor) -> Tensor:
        """Backbone features [b, L, D], valid [b, L] -> what the DiT attends to."""
        return self.vl_self_attention(self.vlln(features), valid[:, None, None, :])

    def velocity(
        self,
        x: Tensor,
        bucket: Tensor,
        state: Tensor,
        vl: Tensor,
        text: Tensor,
        image: Tensor,
        draws: int = 1,
    ) -> Tensor:
        """x [b * draws, horizon, action], bucket [b * draws], state [b, state] -> like x.

        text, image: [b, L] bool, which of vl's tokens the even blocks may see."""
        tokens = self.action_encoder(x, bucket) + self.position_embedding.weight[: x.shape[1]]
        first = self.state_encoder(state)[:, None].repeat_interleave(draws, dim=0)
        sequence = torch.cat((first.to(tokens.dtype), tokens), dim=1)
        masks = text[:, None, None, :], image[:, None, None, :]
        out = self.model(sequence, bucket, vl, *masks, draws)
        return self.action_decoder(out[:, 1:])
