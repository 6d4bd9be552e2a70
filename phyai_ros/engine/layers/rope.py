# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding, half-split layout, and its tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def inverse_frequencies(dim: int, theta: float, device: torch.device) -> torch.Tensor:
    """float32 [dim/2]: theta^(-2i/dim)."""
    i = torch.arange(0, dim, 2, dtype=torch.int64, device=device).float()
    return 1.0 / theta ** (i / dim)


def tables(angles: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 angles [..., dim/2] -> cos and sin [..., dim], each half repeated, cast last."""
    doubled = torch.cat([angles, angles], dim=-1)
    return doubled.cos().to(dtype), doubled.sin().to(dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """[x1, x2] -> [x1 cos - x2 sin, x2 cos + x1 sin]; x [..., L, dim], tables broadcast to x."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def interleaved_mrope(
    positions: torch.Tensor, inv_freq: torch.Tensor, sections: Sequence[int]
) -> torch.Tensor:
    """Qwen3-VL's interleaved multimodal angles. positions [3, B, L] (temporal, height, width) ->
    float32 [B, L, dim/2]: frequency j uses height if j % 3 == 1 and j < 3 s_h, width if
    j % 3 == 2 and j < 3 s_w, else temporal."""
    return mrope_angles(positions, inv_freq, mrope_axes(len(inv_freq), sections, inv_freq.device))


def mrope_axes(count: int, sections: Sequence[int], device: torch.device) -> torch.Tensor:
    """int64 [count]: the axis of positions that each frequency of ``interleaved_mrope`` uses."""
    axes = torch.zeros(count, dtype=torch.long, device=device)
    axes[1 : 3 * sections[1] : 3] = 1
    axes[2 : 3 * sections[2] : 3] = 2
    return axes


def mrope_angles(
    positions: torch.Tensor, inv_freq: torch.Tensor, axes: torch.Tensor
) -> torch.Tensor:
    """``interleaved_mrope`` with axes at hand."""
    picked = positions.float().index_select(0, axes)  # [dim/2, B, L]
    return picked.permute(1, 2, 0) * inv_freq
