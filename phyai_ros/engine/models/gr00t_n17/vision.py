# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Qwen3-VL's vision tower: patches to image tokens, with DeepStack features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import attention, merge_heads
from phyai_ros.engine.layers.norm import layer_norm
from phyai_ros.engine.layers.rope import inverse_frequencies, rotate, tables
from phyai_ros.engine.models.gr00t_n17.backbone import VisionConfig

Grid = tuple[int, int]
"""Patches of one image: rows, columns (both multiples of the merge size)."""

_THETA = 10000.0
_EPS = 1e-6


class _Attention(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)


class _Mlp(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.linear_fc1 = nn.Linear(config.hidden, config.intermediate)
        self.linear_fc2 = nn.Linear(config.intermediate, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.linear_fc1(x), approximate="tanh")
        out: torch.Tensor = self.linear_fc2(hidden)
        return out


class _Block(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.hidden, eps=_EPS)
        self.norm2 = nn.LayerNorm(config.hidden, eps=_EPS)
        self.attn = _Attention(config.hidden)
        self.mlp = _Mlp(config)

    def forward(
        self, x: torch.Tensor, runs: Sequence[tuple[int, int]], cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        """x [patches, hidden]; runs: (images, patches an image) of consecutive equal images;
        cos, sin float32 [patches, 1, head_dim]."""
        qkv = self.attn.qkv(_normed(self.norm1, x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.unbind(1)
        q = rotate(q.float(), cos, sin).to(v.dtype)
        k = rotate(k.float(), cos, sin).to(v.dtype)
        outs, start = [], 0
        for count, length in runs:
            stop = start + count * length
            one = [t[start:stop].unflatten(0, (count, length)).transpose(1, 2) for t in (q, k, v)]
            outs.append(merge_heads(attention(*one)).flatten(0, 1))
            start = stop
        x = x + self.attn.proj(outs[0] if len(outs) == 1 else torch.cat(outs))
        return x + self.mlp(_normed(self.norm2, x))


class _Merger(nn.Module):
    """merge x merge neighbouring patches -> one token. DeepStack's normalises after gathering."""

    def __init__(self, config: VisionConfig, *, norm_after: bool):
        super().__init__()
        self.width = config.hidden * config.merge**2
        self.norm_after = norm_after
        self.norm = nn.LayerNorm(self.width if norm_after else config.hidden, eps=_EPS)
        self.linear_fc1 = nn.Linear(self.width, self.width)
        self.linear_fc2 = nn.Linear(self.width, config.out_hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.norm_after:
            x = _normed(self.norm, x.reshape(-1, self.width))
        else:
            x = _normed(self.norm, x).reshape(-1, self.width)
        return self.feed_forward(x)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [tokens, width], normalised."""
        out: torch.Tensor = self.linear_fc2(F.gelu(self.linear_fc1(x)))
        return out


class _PatchEmbed(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        size = (config.temporal, config.patch, config.patch)
        self.proj = nn.Conv3d(config.channels, config.hidden, size, stride=size)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class VisionTower(nn.Module):
    """Checkpoint keys ``visual.*``."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.config = config
        self.patch_embed = _PatchEmbed(config)
        self.pos_embed = nn.Embedding(config.positions, config.hidden)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.depth))
        self.merger = _Merger(config, norm_after=False)
        self.deepstack_merger_list = nn.ModuleList(
            _Merger(config, norm_after=True) for _ in config.deepstack
        )
        self._grids: dict[tuple[Grid, ...], tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]
        self._grids = {}

    def forward(
        self, patches: torch.Tensor, grids: Sequence[Grid]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """patches [sum of h*w, channels*temporal*patch^2], each merge group contiguous ->
        image tokens [sum / merge^2, out_hidden], and as many DeepStack features as merges."""
        table, cos, sin = self._positions(tuple(grids))
        x = self.patch_embed(patches).float() + table
        runs = [(len(list(same)), h * w) for (h, w), same in groupby(grids)]
        deepstack = []
        for i, block in enumerate(self.blocks):
            x = block(x, runs, cos, sin)
            if i in self.config.deepstack:
                merger = self.deepstack_merger_list[self.config.deepstack.index(i)]
                deepstack.append(merger(x))
        return self.merger(x), deepstack

    def _positions(
        self, grids: tuple[Grid, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Interpolated position embeddings and rotary tables: functions of the grids and of the
        weights alone, so kept while the weights stay what they are."""
        weight = self.pos_embed.weight
        if torch.is_grad_enabled() and weight.requires_grad:
            return self._compute_positions(grids)
        known = self._grids.get(grids)
        if known is None or known[0] != _version(weight):
            if len(self._grids) > 32:
                self._grids.clear()
            known = (_version(weight), *self._compute_positions(grids))
            self._grids[grids] = known
        return known[1:]

    def _compute_positions(
        self, grids: tuple[Grid, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        device = self.pos_embed.weight.device
        inv_freq = inverse_frequencies(self.config.hidden // self.config.heads // 2, _THETA, device)
        tables_, angles = [], []
        for h, w in grids:
            order = _merge_order(h, w, self.config.merge).to(device)
            rows, columns = order // w, order % w
            tables_.append(self._interpolate(h, w)[order])
            axes = torch.stack([rows, columns], dim=-1).float()
            angles.append((axes.unsqueeze(-1) * inv_freq).flatten(1))
        cos, sin = tables(torch.cat(angles), torch.float32)
        return torch.cat(tables_), cos.unsqueeze(1), sin.unsqueeze(1)

    def _interpolate(self, h: int, w: int) -> torch.Tensor:
        """[h*w, hidden]: the square table sampled bilinearly, corners on corners, with weights in
        the table's dtype."""
        table = self.pos_embed.weight
        side = int(self.config.positions**0.5)
        low_h, high_h, part_h = _sample(side, h, table.device)
        low_w, high_w, part_w = _sample(side, w, table.device)
        corners = (
            (low_h, low_w, (1 - part_h)[:, None] * (1 - part_w)),
            (low_h, high_w, (1 - part_h)[:, None] * part_w),
            (high_h, low_w, part_h[:, None] * (1 - part_w)),
            (high_h, high_w, part_h[:, None] * part_w),
        )
        total = torch.zeros((), dtype=table.dtype, device=table.device)
        for rows, columns, weight in corners:
            index = (rows[:, None] * side + columns).flatten()
            total = total + table[index] * weight.flatten()[:, None].to(table.dtype)
        return total


def _normed(norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, norm.weight, norm.bias, norm.eps)


def _sample(
    side: int, count: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    at = torch.linspace(0, side - 1, count, device=device)
    low = at.long()
    return low, (low + 1).clamp(max=side - 1), at - low


def _merge_order(h: int, w: int, merge: int) -> torch.Tensor:
    """Row-major patch indices in the order (h/m, w/m, m, m)."""
    index = torch.arange(h * w).view(h // merge, merge, w // merge, merge)
    return index.permute(0, 2, 1, 3).flatten()


def _version(weight: torch.Tensor) -> int:
    return hash((weight.data_ptr(), weight._version))
