# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A residual stream into the order, the copy and the squares that ``cluster_product`` reads, in one
launch."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels import fragments
from phyai_ros.engine.kernels._triton import jit, tl
from phyai_ros.engine.kernels.fragments import COPY

Into = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""A stream's groups, its copy and the squares beside that."""


def reference_into(x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | None = None) -> Into:
    """x [rows <= 64, width]; scale [width], of the norm behind -> groups in x's dtype, fragments of
    x ``COPY`` scale in ``dtype``, and ``into_squares``."""
    copy = x * COPY if scale is None else x * COPY * scale
    return (
        fragments.into_groups(x),
        fragments.into_fragments(copy.to(dtype)),
        fragments.into_squares(x),
    )


@jit
def group_at(row, column):
    """Where groups hold a row's column."""
    lane = row % 8 * 4 + column % 8 // 2
    return (column // 8 * 4 + row // 16) * 128 + lane * 4 + row // 8 % 2 * 2 + column % 2


@jit
def fragment_at(at):
    """Where fragments hold what groups hold at ``at``."""
    group = at // 512
    return group // 2 * 1024 + at // 4 % 128 * 8 + group % 2 * 4 + at % 4


@jit
def regroup_kernel(
    rows_ptr, groups_ptr, copy_ptr, squares_ptr, scale_ptr, rows, width,
    SCALED: tl.constexpr, SHARE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * 512 + tl.arange(0, 512)  # a group
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    lane = i // 4 % 32
    row = i // 128 % 4 * 16 + i % 4 // 2 * 8 + lane // 4
    column = i // 512 * 8 + lane % 4 * 2 + i % 2
    inside = row < rows
    if PDL:
        tl.extra.cuda.gdc_wait()
    x = tl.load(rows_ptr + row * width + column, mask=inside, other=0.0)
    tl.store(groups_ptr + i, x)
    x *= SHARE
    squares = tl.sum(tl.sum(tl.reshape(x * x, (32, 4, 2, 2)), 3), 1)
    at = tl.arange(0, 32)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(squares_ptr + tl.program_id(0) * 64 + at, squares)
    if SCALED:
        x *= tl.load(scale_ptr + column)
    tl.store(copy_ptr + fragment_at(i), x.to(copy_ptr.dtype.element_ty))


def empty_into(width: int, dtype: torch.dtype, like: torch.Tensor) -> Into:
    """Where a stream of ``width`` columns goes, of numbers like those of ``like``."""
    return (
        like.new_empty(width // 8, 4, 32, 4),
        like.new_empty(width // 16, 4, 32, 8, dtype=dtype),
        like.new_empty(width // 8, 32, 2),
    )


def fused_into(
    x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | None = None, *,
    dependent: bool = False,
) -> Into:  # fmt: skip
    """``reference_into``; x and scale contiguous, float32."""
    rows, width = x.shape
    made = empty_into(width, dtype, x)
    options = {"launch_pdl": True} if dependent else {}
    regroup_kernel[(width // 8,)](
        x, *made, x if scale is None else scale, rows, width,
        SCALED=scale is not None, SHARE=COPY, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return made
