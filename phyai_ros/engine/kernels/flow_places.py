# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which rows of a prefix of images and words exist, and rotations of its rows or of those behind
it, in one launch. A row's position is the number of existing ones in front of it."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._places import ROWS, put_turns, stand
from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    images: torch.Tensor,
    words: torch.Tensor,
    frequency: torch.Tensor,
    *,
    patches: int,
    behind: int = 0,
    first: int = 0,
    plain: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """images bool [B, cameras], which there are, ``patches`` rows each; words bool [B, L];
    ``behind`` rows follow and exist. frequency [d / 2]: angles a position. plain: what is launched
    in front has ended before anything behind begins (no early launch on either side). -> exists
    bool [B, rows]; cos and sin of the rows from ``first`` on, [B, rows - first, d], each half
    twice."""
    del plain
    ones = words.new_ones(len(words), behind)
    exists = torch.cat((images.repeat_interleave(patches, dim=1), words, ones), dim=1)
    position = (exists.cumsum(1) - 1)[:, first:].to(frequency.dtype)
    angle = position[:, :, None] * frequency
    angle = torch.cat([angle, angle], dim=-1)
    return exists, angle.cos(), angle.sin()


@jit
def flow_places_kernel(
    images_ptr, words_ptr, frequency_ptr, exists_ptr, cos_ptr, sin_ptr,
    cameras, patches, L, total, first,
    HALF: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    before = cameras * patches
    j = tl.arange(0, WIDE)
    own = j < HALF
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    frequency = tl.load(frequency_ptr + j, mask=own, other=0.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    i = tl.arange(0, BLOCK)
    seen = tl.load(images_ptr + b * cameras + i // patches, mask=i < before, other=0).to(tl.int32)
    word = i - before
    spoken = tl.load(words_ptr + b * L + word, mask=(word >= 0) & (word < L), other=0)
    seen += spoken.to(tl.int32)
    seen = tl.where((word >= L) & (i < total), 1, seen)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = row < total
    position, here = stand(seen, i, row)
    tl.store(exists_ptr + b * total + row, here.to(tl.uint8), mask=there)
    angle = position.to(tl.float32)[:, None] * frequency[None, :]
    inside = (there & (row >= first))[:, None] & own[None, :]
    at = (b * (total - first) + row - first)[:, None] * 2 * HALF + j[None, :]
    put_turns(cos_ptr, sin_ptr, at, angle, inside, HALF)


def fused(
    images: torch.Tensor,
    words: torch.Tensor,
    frequency: torch.Tensor,
    *,
    patches: int,
    behind: int = 0,
    first: int = 0,
    plain: bool = False,
    dependent: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``reference`` in one launch. frequency float32; all contiguous."""
    (batch, cameras), length, half = images.shape, words.shape[1], frequency.shape[0]
    total, device = cameras * patches + length + behind, images.device
    exists = torch.empty(batch, total, dtype=torch.bool, device=device)
    cos, sin = (torch.empty(batch, total - first, 2 * half, device=device) for _ in range(2))
    early = dependent and not plain
    options = {"launch_pdl": True} if early else {}
    flow_places_kernel[(batch, -(-total // ROWS))](
        images.view(torch.uint8), words.view(torch.uint8), frequency, exists.view(torch.uint8),
        cos, sin, cameras, patches, length, total, first,
        HALF=half, WIDE=power_of_two(half), ROWS=ROWS, BLOCK=power_of_two(total), PDL=early,
        num_warps=4, **options,
    )  # fmt: skip
    return exists, cos, sin
