# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0.5 (arXiv 2504.16054): time modulates every norm of the action expert, the state is in the
prompt."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.paligemma.config import FlowConfig
from phyai_ros.engine.models.paligemma.flow import FlowPolicy, Prefix
from phyai_ros.engine.models.paligemma.fp8 import pi05_plan
from phyai_ros.engine.models.paligemma.fused import FusedPi05
from phyai_ros.engine.models.paligemma.gemma import AdaptiveRmsNorm
from phyai_ros.engine.quantize import Fp8Plan


class Pi05(FlowPolicy):
    """pi0.5's parts beside ``FlowPolicy``'s: the MLP that conditions the norms on time."""

    def __init__(self, config: FlowConfig):
        super().__init__(config, adaptive=True)
        width = config.expert.width
        self.time_in = nn.Linear(width, width)
        self.time_out = nn.Linear(width, width)

    @property
    def fp8(self) -> Fp8Plan:
        return pi05_plan(self.config.language.depth)

    def embed_condition(self, time: torch.Tensor) -> torch.Tensor:
        """time [...] -> the norms' condition [..., width]."""
        embedding = self.embed_time(time).to(self.time_in.weight.dtype)
        return F.silu(self.time_out(F.silu(self.time_in(embedding))))

    def norms(self) -> tuple[AdaptiveRmsNorm, ...]:
        """Every norm of the expert, in the order in which they act."""
        pairs = ((layer.norm1, layer.norm2) for layer in self.expert.layers)
        norms = (*(norm for pair in pairs for norm in pair), self.expert.norm)
        return cast("tuple[AdaptiveRmsNorm, ...]", norms)

    def condition(self, time: torch.Tensor) -> torch.Tensor:
        """time [B, T] -> scale, shift and gate of every norm, [B, T, norms, 3 * width]."""
        condition = self.embed_condition(time)
        return torch.stack(
            [norm.dense(condition.to(norm.dense.weight.dtype)) for norm in self.norms()], dim=2
        )

    def velocity(self, x: torch.Tensor, prefix: Prefix, condition: torch.Tensor) -> torch.Tensor:
        tokens = self.action_in(x.to(self.action_in.weight.dtype)).float()
        hidden = self.expert(tokens, prefix, condition)
        return self.action_out(hidden.to(self.action_out.weight.dtype)).float()

    def fused(self, operators: Operators) -> FusedPi05:
        """The same function from fused operators, on these weights."""
        return FusedPi05(self, operators)
