# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A residual stream into the order and the copy that ``cluster_product`` reads, and back; each in
one launch."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels import fragments
from phyai_ros.engine.kernels._triton import jit, tl
from phyai_ros.engine.kernels.fragments import COPY, ROWS


def reference_into(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows <= 64, width] -> groups in x's dtype, and fragments of x ``COPY`` in ``dtype``."""
    return fragments.into_groups(x), fragments.into_fragments((x * COPY).to(dtype))


reference_from = fragments.from_groups


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
    rows_ptr, groups_ptr, copy_ptr, rows, width,
    INTO: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    lane = i // 4 % 32
    row = i // 128 % 4 * 16 + i % 4 // 2 * 8 + lane // 4
    column = i // 512 * 8 + lane % 4 * 2 + i % 2
    inside = row < rows
    if PDL:
        tl.extra.cuda.gdc_wait()
    if INTO:
        x = tl.load(rows_ptr + row * width + column, mask=inside, other=0.0)
        tl.store(groups_ptr + i, x)
        tl.store(copy_ptr + fragment_at(i), (x * SHARE).to(copy_ptr.dtype.element_ty))
    else:
        x = tl.load(groups_ptr + i, mask=inside, other=0.0)
        tl.store(rows_ptr + row * width + column, x, mask=inside)


def fused_into(
    x: torch.Tensor, dtype: torch.dtype, *, dependent: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """``reference_into``; x contiguous, float32."""
    rows, width = x.shape
    out = torch.empty(width // 8, 4, 32, 4, dtype=x.dtype, device=x.device)
    copy = torch.empty(width // 16, 4, 32, 8, dtype=dtype, device=x.device)
    _launch(x, out, copy, rows, width, True, dependent)
    return out, copy


def fused_from(x: torch.Tensor, rows: int, *, dependent: bool = False) -> torch.Tensor:
    """``reference_from``; float32."""
    width = len(x) * 8
    out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
    _launch(out, x, x, rows, width, False, dependent)
    return out


def _launch(
    plain: torch.Tensor, groups: torch.Tensor, copy: torch.Tensor, rows: int, width: int,
    into: bool, dependent: bool,
) -> None:  # fmt: skip
    options = {"launch_pdl": True} if dependent else {}
    block = 512  # a group
    regroup_kernel[(ROWS * width // block,)](
        plain, groups, copy, rows, width,
        INTO=into, SHARE=COPY, BLOCK=block, PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
