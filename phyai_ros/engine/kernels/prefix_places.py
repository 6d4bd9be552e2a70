# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which rows of a prefix (``prefix_rows``) exist, and the rotation of theirs and of the rows behind
them, in one launch. A row's position is the number of existing ones in front of it."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._places import ROWS, put_turns, stand
from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    images: torch.Tensor,
    words: torch.Tensor,
    period: torch.Tensor,
    *,
    patches: int,
    behind: int,
    marks: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """images bool [slots, B], which images there are, of ``patches`` rows each; marks: the same of
    the three rows around each, None where there are none; words bool [B, L]. The state exists, and
    ``behind`` rows follow it. period [d / 2]: positions over it are angles. -> exists bool [B, P];
    the same and what is behind, [B, P + behind]; cos and sin [B, P + behind, d], each half twice.
    """
    columns = []
    for slot, image in enumerate(images):
        if marks is not None:
            columns += [marks[slot]] * 2
        columns += [image] * patches
        if marks is not None:
            columns += [marks[slot]]
    ones = words.new_ones(len(words), 1 + behind)
    joint = torch.cat([*(c[:, None] for c in columns), words, ones], dim=1)
    angle = (joint.cumsum(1) - 1).to(period.dtype)[:, :, None] / period
    angle = torch.cat([angle, angle], dim=-1)
    exists = joint[:, : joint.shape[1] - behind].contiguous()
    return exists, joint, angle.cos(), angle.sin()


@jit
def prefix_places_kernel(
    images_ptr, marks_ptr, words_ptr, period_ptr, exists_ptr, joint_ptr, cos_ptr, sin_ptr,
    B, slots, patches, L, behind,
    MARKS: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    span = patches + 3 if MARKS else patches
    before = slots * span
    prefix = before + L + 1
    total = prefix + behind
    j = tl.arange(0, HALF)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    period = tl.load(period_ptr + j, mask=j < D // 2, other=1.0)
    if PDL:
        tl.extra.cuda.gdc_wait()
    i = tl.arange(0, BLOCK)
    slot = i // span
    patch = i % span - (2 if MARKS else 0)
    is_mark = (patch < 0) | (patch >= patches)
    of_slot = i < before
    word = i - before
    seen = tl.load(images_ptr + slot * B + b, mask=of_slot & (is_mark == 0), other=0).to(tl.int32)
    if MARKS:
        mark = tl.load(marks_ptr + slot * B + b, mask=of_slot & is_mark, other=0)
        seen += mark.to(tl.int32)
    spoken = tl.load(words_ptr + b * L + word, mask=(word >= 0) & (word < L), other=0)
    seen += spoken.to(tl.int32)
    seen = tl.where((word >= L) & (i < total), 1, seen)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    there = row < total
    position, own = stand(seen, i, row)
    tl.store(joint_ptr + b * total + row, own.to(tl.uint8), mask=there)
    tl.store(exists_ptr + b * prefix + row, own.to(tl.uint8), mask=row < prefix)
    # As torch divides: an error in an angle of hundreds of radians is one of its cosine.
    angle = tl.div_rn(
        tl.broadcast_to(position.to(tl.float32)[:, None], (ROWS, HALF)),
        tl.broadcast_to(period[None, :], (ROWS, HALF)),
    )
    at = (b * total + row)[:, None] * D + j[None, :]
    inside = there[:, None] & (j < D // 2)[None, :]
    put_turns(cos_ptr, sin_ptr, at, angle, inside, D // 2)


def fused(
    images: torch.Tensor,
    words: torch.Tensor,
    period: torch.Tensor,
    *,
    patches: int,
    behind: int,
    marks: torch.Tensor | None = None,
    dependent: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """``reference`` in one launch. period float32; all contiguous."""
    (slots, batch), length, d = images.shape, words.shape[1], 2 * len(period)
    prefix = slots * (patches + (0 if marks is None else 3)) + length + 1
    total, device = prefix + behind, images.device
    exists = torch.empty(batch, prefix, dtype=torch.bool, device=device)
    joint = torch.empty(batch, total, dtype=torch.bool, device=device)
    cos, sin = (torch.empty(batch, total, d, device=device) for _ in range(2))
    given = [t.view(torch.uint8) for t in (images, images if marks is None else marks, words)]
    options = {"launch_pdl": True} if dependent else {}
    prefix_places_kernel[(batch, -(-total // ROWS))](
        *given, period, exists.view(torch.uint8), joint.view(torch.uint8), cos, sin,
        batch, slots, patches, length, behind,
        MARKS=marks is not None, D=d, HALF=power_of_two(d // 2), ROWS=ROWS,
        BLOCK=power_of_two(total), PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return exists, joint, cos, sin
