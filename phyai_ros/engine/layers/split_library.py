# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The library's product with its depth in parts, as one batch of products: as many tiles more, and
the parts are added by whoever reads them."""

from __future__ import annotations

import torch

_SPLITS = (2, 4)
_SHORTEST = 1024
"""Of a part's depth: below, a product is little more than its start and its end."""


def fitting(x: torch.Tensor, weight: torch.Tensor) -> dict[str, int]:
    """x [M, K], weight [N, K] -> how many parts there may be, by name."""
    k = weight.shape[1]
    if x.dtype not in (torch.float16, torch.bfloat16) or not x.is_contiguous():
        return {}
    return {f"parts {n}": n for n in _SPLITS if k % (64 * n) == 0 and k // n >= _SHORTEST}


def parts(x: torch.Tensor, weight: torch.Tensor, count: int) -> torch.Tensor:
    """x W^T in ``count`` parts to be summed, [count, M, N] in x's dtype, each rounded once."""
    across, down = (t.unflatten(1, (count, -1)).transpose(0, 1) for t in (x, weight))
    return torch.bmm(across, down.transpose(1, 2))
