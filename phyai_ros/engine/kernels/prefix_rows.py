# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A language model's input of images, words and a state, one row a position, in one pass.

    [mark mark] image [mark] ... words, state

Images and words are multiplied by a factor, the marks around an image (where a model has any) and
the state are not.
"""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    images: torch.Tensor,
    table: torch.Tensor,
    tokens: torch.Tensor,
    state: torch.Tensor,
    *,
    factor: float,
    marks: tuple[int, int] | None = None,
) -> torch.Tensor:
    """images [slots, B, patches, width], table [words, width], tokens int64 [B, L], state [B,
    width]; marks: rows of the table: around an image, and second in front of it. The factor is
    rounded to the images' dtype for them, and products to the dtype of what they are of.
    -> [B, P, width] in state's dtype."""
    parts = []
    rounded = torch.tensor(factor, dtype=images.dtype).item()
    for image in images:
        piece = image * rounded
        if marks is not None:
            around, whole = (table[m].expand(len(image), 1, -1) for m in marks)
            piece = torch.cat([around, whole, piece, around], dim=1)
        parts.append(piece.to(state.dtype))
    words = table[tokens] * factor
    return torch.cat([*parts, words.to(state.dtype), state[:, None]], dim=1)


@jit
def prefix_rows_kernel(
    images_ptr, table_ptr, tokens_ptr, state_ptr, out_ptr,
    B, P, slots, patches, L, width, rounded, factor, around, whole,
    MARKS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) // P
    place = tl.program_id(0) % P
    at = tl.arange(0, BLOCK)
    inside = at < width
    span = patches + 3 if MARKS else patches
    slot, patch = place // span, place % span - (2 if MARKS else 0)
    word = place - slots * span
    of_slot = word < 0
    is_patch = of_slot & (patch >= 0) & (patch < patches)
    is_word = (word >= 0) & (word < L)
    is_state = word == L
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    token = tl.load(tokens_ptr + b * L + word, mask=is_word, other=0)
    is_mark = of_slot & (is_patch == 0)
    if MARKS:
        token = tl.where(is_mark, tl.where(patch == -1, whole, around), token)
    row = ((slot * B + b) * patches + patch).to(tl.int64)
    image = tl.load(images_ptr + row * width + at, mask=inside & is_patch, other=0.0)
    image = (image.to(tl.float32) * rounded).to(images_ptr.dtype.element_ty).to(tl.float32)
    read = tl.load(table_ptr + token * width + at, mask=inside & (is_word | is_mark), other=0.0)
    times = tl.where(is_word, factor, 1.0)
    read = (read.to(tl.float32) * times).to(table_ptr.dtype.element_ty).to(tl.float32)
    state = tl.load(state_ptr + b * width + at, mask=inside & is_state, other=0.0)
    y = tl.where(is_patch, image, tl.where(is_state, state, read))
    tl.store(out_ptr + tl.program_id(0).to(tl.int64) * width + at, y, mask=inside)


def fused(
    images: torch.Tensor,
    table: torch.Tensor,
    tokens: torch.Tensor,
    state: torch.Tensor,
    *,
    factor: float,
    marks: tuple[int, int] | None = None,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch. state float32; all contiguous."""
    (slots, batch, patches, width), length = images.shape, tokens.shape[1]
    rows = slots * (patches + (0 if marks is None else 3)) + length + 1
    out = torch.empty(batch, rows, width, dtype=torch.float32, device=images.device)
    options = {"launch_pdl": True} if dependent else {}
    prefix_rows_kernel[(batch * rows,)](
        images, table, tokens, state, out, batch, rows, slots, patches, length, width,
        torch.tensor(factor, dtype=images.dtype).item(), float(factor), *(marks or (0, 0)),
        MARKS=marks is not None, BLOCK=power_of_two(width), PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return out
