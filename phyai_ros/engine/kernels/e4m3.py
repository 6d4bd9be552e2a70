# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Operands that become E4M3 in a product's registers (``cuda/e4m3.cuh``)."""

from __future__ import annotations

import torch

from phyai_ros.engine.quantize import E4M3


def ordered(values: torch.Tensor) -> torch.Tensor:
    """A weight's E4M3 values [n, k], columns in the order in which ``e4m3.cuh`` has operands."""
    pairs = values.view(torch.uint8).unflatten(1, (-1, 2, 4, 2))
    return pairs.transpose(2, 3).flatten(1).contiguous().view(values.dtype)


def narrowed(x: torch.Tensor, ranks: int) -> torch.Tensor:
    """The twin of how operands become E4M3: x [rows, k], of whose share for each of ``ranks``
    warpgroups a row has one power of two. -> the same in E4M3's precision."""
    split = x.unflatten(1, (ranks, -1))
    exponent = torch.frexp(split.abs().amax(2, keepdim=True).float()).exponent.clamp(min=-118)
    return torch.ldexp(
        torch.ldexp(split.float(), 8 - exponent).to(E4M3).to(x.dtype), exponent - 8
    ).flatten(1)
