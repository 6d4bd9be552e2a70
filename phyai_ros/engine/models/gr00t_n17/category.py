# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Layers with one set of weights an embodiment.

The embodiments of a request are known before it runs, so their weights are chosen once a request
(``select``) and not at each denoising step; a batch of one embodiment copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F


class Chosen:
    """Weights of the embodiments of a batch: weight [1 or B, in, out], bias [1 or B, 1, out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor):
        self.weight, self.bias = weight, bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, L, in] -> [B, L, out]."""
        return torch.matmul(x, self.weight) + self.bias

    def split(self, width: int) -> tuple[torch.Tensor, Chosen]:
        """For an input that is two concatenated: the weight of the first ``width`` columns, and
        the rest with the bias."""
        return self.weight[:, :width], Chosen(self.weight[:, width:], self.bias)


class CategoryLinear(nn.Module):
    """y = x W[e] + b[e]; W [embodiments, in, out]."""

    def __init__(self, categories: int, inputs: int, outputs: int):
        super().__init__()
        self.W = nn.Parameter(torch.empty(categories, inputs, outputs))
        self.b = nn.Parameter(torch.empty(categories, outputs))

    def select(self, embodiments: Sequence[int]) -> Chosen:
        if len(set(embodiments)) == 1:
            e = embodiments[0]
            return Chosen(self.W[e : e + 1], self.b[e : e + 1, None])
        index = torch.tensor(list(embodiments), device=self.W.device)
        return Chosen(self.W[index], self.b[index][:, None])


class CategoryMlp(nn.Module):
    """Two ``CategoryLinear``, see ``category_mlp``."""

    def __init__(self, categories: int, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.layer1 = CategoryLinear(categories, inputs, hidden)
        self.layer2 = CategoryLinear(categories, hidden, outputs)

    def select(self, embodiments: Sequence[int]) -> tuple[Chosen, Chosen]:
        return self.layer1.select(embodiments), self.layer2.select(embodiments)


def category_mlp(x: torch.Tensor, chosen: tuple[Chosen, Chosen]) -> torch.Tensor:
    """x [B, L, in] -> [B, L, out] through the chosen layers, relu between them."""
    return chosen[1](F.relu(chosen[0](x)))


class ActionEncoder(nn.Module):
    """W3(silu(W2([W1(x); tau]))), tau the sinusoid of the denoising bucket."""

    def __init__(self, categories: int, action: int, hidden: int):
        super().__init__()
        self.W1 = CategoryLinear(categories, action, hidden)
        self.W2 = CategoryLinear(categories, 2 * hidden, hidden)
        self.W3 = CategoryLinear(categories, hidden, hidden)
