# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Training targets beside the flow; nothing of this is exported."""

from __future__ import annotations

from torch import Tensor, nn


class Probe(nn.Module):
    """Reads block positions (and later the goal) off image tokens [b, tokens, width].

    A flow loss alone teaches the vision tower only slowly where things are."""

    def __init__(self, tokens: int, width: int, outputs: int, narrow: int = 32) -> None:
        super().__init__()
        self.token = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, narrow))
        self.net = nn.Sequential(
            nn.Linear(tokens * narrow, 256), nn.GELU(), nn.Linear(256, outputs)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.net(self.token(tokens).flatten(1))
