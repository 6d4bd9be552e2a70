# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Images -> rows of their patches, in the order of a convolution's weights: a convolution whose
stride is its size is then a product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    images: Sequence[torch.Tensor], size: int, dtype: torch.dtype, *, width: int | None = None
) -> torch.Tensor:
    """images: [B, 3, H, W] each, of one shape, H and W multiples of ``size``. -> [images B,
    patches, 3 size^2], row by row of an image; channel, row, column in a patch. width: of a row,
    zeros behind its patch."""
    x = torch.cat(list(images)).to(dtype)
    batch, channels, height, across = x.shape
    x = x.reshape(batch, channels, height // size, size, across // size, size)
    x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)
    return x if width is None else F.pad(x, (0, width - x.shape[2]))


@jit
def patches_kernel(
    x_ptr, out_ptr, across, count, image_stride, channel_stride, row_stride, width,
    SIZE: tl.constexpr, VALUES: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A program: a patch."""
    image = tl.program_id(0) // count
    patch = tl.program_id(0) % count
    at = tl.arange(0, BLOCK)
    inside = at < VALUES
    channel, y, x = at // (SIZE * SIZE), at // SIZE % SIZE, at % SIZE
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = patch // across * SIZE + y
    column = patch % across * SIZE + x
    source = x_ptr + image.to(tl.int64) * image_stride
    value = tl.load(
        source + channel * channel_stride + row * row_stride + column, mask=inside, other=0.0
    )
    out = out_ptr + tl.program_id(0).to(tl.int64) * width + at
    tl.store(out, value.to(out_ptr.dtype.element_ty), mask=at < width)


def fused(
    images: Sequence[torch.Tensor],
    size: int,
    dtype: torch.dtype,
    *,
    width: int | None = None,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in a launch an image tensor; pixels of a row contiguous."""
    batch, channels, height, across = images[0].shape
    across //= size
    count, values = height // size * across, channels * size * size
    width = values if width is None else width
    out = torch.empty(len(images), batch, count, width, dtype=dtype, device=images[0].device)
    options = {"launch_pdl": True} if dependent else {}
    for image, to in zip(images, out, strict=True):
        patches_kernel[(batch * count,)](
            image, to, across, count, *image.stride()[:3], width,
            SIZE=size, VALUES=values, BLOCK=power_of_two(width), PDL=dependent, num_warps=4,
            **options,
        )  # fmt: skip
    return out.flatten(0, 1)
