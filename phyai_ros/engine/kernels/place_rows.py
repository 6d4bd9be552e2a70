# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Keys and values of all layers into a cache that has room for more behind them, in its dtype, in
one pass: the room is zeroed alike. (The library's copy into strided rows of another dtype takes
three times as long as the bytes do.)"""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, tl

_BLOCK = 4096


def reference(
    key: torch.Tensor, value: torch.Tensor, to_key: torch.Tensor, to_value: torch.Tensor
) -> None:
    """key, value [..., L, d] -> the first L rows of to_key, to_value [..., M, d]; then zeros."""
    for rows, to in ((key, to_key), (value, to_value)):
        to[..., : rows.shape[-2], :].copy_(rows)
        to[..., rows.shape[-2] :, :].zero_()


@jit
def place_rows_kernel(
    key_ptr, value_ptr, to_key_ptr, to_value_ptr, size, to_size,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    if tl.program_id(2) == 0:
        x = tl.load(key_ptr + group * size + at, mask=at < size, other=0.0)
        tl.store(to_key_ptr + group * to_size + at, x.to(to_key_ptr.dtype.element_ty), at < to_size)
    else:
        y = tl.load(value_ptr + group * size + at, mask=at < size, other=0.0)
        out = y.to(to_value_ptr.dtype.element_ty)
        tl.store(to_value_ptr + group * to_size + at, out, at < to_size)


def fused(
    key: torch.Tensor,
    value: torch.Tensor,
    to_key: torch.Tensor,
    to_value: torch.Tensor,
    *,
    dependent: bool = False,
) -> None:
    """``reference`` in one launch; all contiguous."""
    size, to_size = (t.shape[-2] * t.shape[-1] for t in (key, to_key))
    options = {"launch_pdl": True} if dependent else {}
    place_rows_kernel[(-(-to_size // _BLOCK), key.numel() // size, 2)](
        key, value, to_key, to_value, size, to_size, BLOCK=_BLOCK, PDL=dependent, num_warps=8,
        **options,
    )  # fmt: skip
