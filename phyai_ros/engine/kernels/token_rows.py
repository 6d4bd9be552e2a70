# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The rows of a transformer over one vector and the tokens behind it, in one launch."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl


def reference(
    first: torch.Tensor, tokens: torch.Tensor, places: torch.Tensor | None = None
) -> torch.Tensor:
    """first [B or 1, width], tokens [B, T, width], places [T or more, width] to be added to the
    tokens, in their dtype -> float32 [B (1 + T), width]."""
    if places is not None:
        tokens = tokens + places[: tokens.shape[1]]
    first = first[:, None].expand(len(tokens), -1, -1)
    return torch.cat([first, tokens], dim=1).float().flatten(0, 1)


@jit
def token_rows_kernel(
    first_ptr, tokens_ptr, places_ptr, out_ptr, T, width, first_stride,
    HAS_PLACES: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    b = tl.program_id(1)
    at = tl.arange(0, BLOCK)
    inside = at < width
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    if row == 0:
        x = tl.load(first_ptr + b * first_stride + at, mask=inside, other=0.0).to(tl.float32)
    else:
        token = tl.load(tokens_ptr + (b * T + row - 1) * width + at, mask=inside, other=0.0)
        x = token.to(tl.float32)
        if HAS_PLACES:
            place = tl.load(places_ptr + (row - 1) * width + at, mask=inside, other=0.0)
            x = (x + place.to(tl.float32)).to(token.dtype).to(tl.float32)
    tl.store(out_ptr + (b * (T + 1) + row) * width + at, x, mask=inside)


def fused(
    first: torch.Tensor,
    tokens: torch.Tensor,
    places: torch.Tensor | None = None,
    *,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch; rows contiguous, tokens whole."""
    batch, length, width = tokens.shape
    out = torch.empty(batch * (1 + length), width, dtype=torch.float32, device=tokens.device)
    options = {"launch_pdl": True} if dependent else {}
    token_rows_kernel[(1 + length, batch)](
        first, tokens, tokens if places is None else places, out, length, width,
        first.stride(0) if len(first) > 1 else 0, HAS_PLACES=places is not None,
        BLOCK=power_of_two(width), PDL=dependent, num_warps=4, **options,
    )  # fmt: skip
    return out
