# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A language model's input of images and words, one row a position, in one pass."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    images: torch.Tensor, table: torch.Tensor, tokens: torch.Tensor, *, factor: float
) -> torch.Tensor:
    """images [B, patches, width], table [words, width], tokens int64 [B, L] -> images, then the
    words' rows of the table times factor, [B, patches + L, width] in float32 or wider."""
    words = table[tokens]
    words = words if words.dtype == torch.float64 else words.float()
    return torch.cat((images.to(words.dtype), words * factor), dim=1)


@jit
def flow_tokens_kernel(
    images_ptr, table_ptr, tokens_ptr, out_ptr, patches, L, width, factor,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    b = tl.program_id(1)
    at = tl.arange(0, BLOCK)
    inside = at < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    out = out_ptr + (b * (patches + L) + row).to(tl.int64) * width + at
    if row < patches:
        of_image = images_ptr + (b * patches + row).to(tl.int64) * width + at
        tl.store(out, tl.load(of_image, mask=inside, other=0.0).to(tl.float32), mask=inside)
    else:
        token = tl.load(tokens_ptr + b * L + row - patches).to(tl.int64)
        of_word = tl.load(table_ptr + token * width + at, mask=inside, other=0.0)
        tl.store(out, of_word.to(tl.float32) * factor, mask=inside)


def fused(
    images: torch.Tensor,
    table: torch.Tensor,
    tokens: torch.Tensor,
    *,
    factor: float,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch, float32; all contiguous."""
    (batch, patches, width), length = images.shape, tokens.shape[1]
    out = torch.empty(batch, patches + length, width, device=images.device)
    options = {"launch_pdl": True} if dependent else {}
    flow_tokens_kernel[(patches + length, batch)](
        images, table, tokens, out, patches, length, width, factor,
        BLOCK=power_of_two(width), PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return out
