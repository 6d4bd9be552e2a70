# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Statistics of the demonstrations, as the checkpoint layouts name them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}


@dataclass(frozen=True)
class Range:
    """Extremes of one feature; values map to [-1, 1] and a constant column to 0."""

    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, values: Tensor, axes: tuple[int, ...]) -> Range:
        return cls(values.amin(axes), values.amax(axes))

    def to(self, device: torch.device) -> Range:
        return Range(self.low.to(device), self.high.to(device))

    def normalise(self, values: Tensor) -> Tensor:
        span = self.high - self.low
        scaled = 2 * (values - self.low) / torch.where(span > 0, span, 1.0) - 1
        return torch.where(span > 0, scaled, 0.0).clamp(-1, 1)

    def restore(self, values: Tensor) -> Tensor:
        return (values.clamp(-1, 1) + 1) / 2 * (self.high - self.low) + self.low


def describe(values: Tensor, axes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """min, max, mean, std and quantiles over the first axes, float64."""
    flat = values.flatten(0, len(axes) - 1) if len(axes) > 1 else values
    flat = flat.double()
    found = {"min": flat.amin(0), "max": flat.amax(0), "mean": flat.mean(0), "std": flat.std(0)}
    # torch.quantile refuses large inputs: an evenly spaced part is enough for a quantile.
    part = flat[:: max(1, len(flat) // 100_000)]
    found |= {k: part.quantile(q, dim=0) for k, q in QUANTILES.items()}
    return {k: v.cpu().numpy() for k, v in found.items()}
