# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Operands that become E4M3, or E5M2, in a product's registers (``cuda/e4m3.cuh``)."""

from __future__ import annotations

import torch

from phyai_ros.engine.quantize import E4M3, E5M2, in_e5m2


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


def in_bytes(x: torch.Tensor) -> torch.Tensor:
    """Rows [64, width], width a multiple of 32, to fragments of E5M2 (``quantize.in_e5m2``): uint8
    [width / 32, 128, 16], as a product of E5M2 takes its first operand."""
    split = in_e5m2(x).view(torch.uint8).view(4, 2, 8, -1, 2, 4, 4)
    # warp, rows apart, row, step, half of it, lane, byte
    return split.permute(3, 0, 2, 5, 4, 1, 6).reshape(-1, 128, 16)


def from_bytes(x: torch.Tensor, rows: int) -> torch.Tensor:
    """What ``in_bytes`` makes, uint8 [width / 32, 128, 16] -> its first rows [rows, width],
    float64."""
    split = x.view(-1, 4, 8, 4, 2, 2, 4).permute(1, 5, 2, 0, 4, 3, 6).reshape(64, -1)
    return split[:rows].to(torch.uint8).view(E5M2).double()
