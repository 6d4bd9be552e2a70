# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 (arXiv 2410.24164): time is mixed into the action tokens, the state is a token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.paligemma.config import FlowConfig
from phyai_ros.engine.models.paligemma.flow import FlowPolicy, Inputs, Prefix
from phyai_ros.engine.models.paligemma.fp8 import pi0_plan
from phyai_ros.engine.models.paligemma.fused import FusedPi0
from phyai_ros.engine.models.paligemma.gemma import KeyValue, extend, rope
from phyai_ros.engine.quantize import Fp8Plan


class Pi0(FlowPolicy):
    """pi0's parts beside ``FlowPolicy``'s: the state's projection and the time MLP."""

    def __init__(self, config: FlowConfig):
        super().__init__(config, adaptive=False)
        width = config.expert.width
        self.state_in = nn.Linear(config.state_width, width)
        self.time_in = nn.Linear(2 * width, width)
        self.time_out = nn.Linear(width, width)

    @property
    def fp8(self) -> Fp8Plan:
        return pi0_plan(self.config.language.depth)

    def suffix_prefix(
        self, inputs: Inputs, layers: tuple[KeyValue, ...], exists: torch.Tensor
    ) -> Prefix:
        """The state token sees the prefix and itself, never the actions: it joins the prefix."""
        config = self.config.expert
        here = exists.new_ones(exists.shape[0], 1)
        position = rope(exists.sum(1, keepdim=True), config)
        exists = torch.cat((exists, here), dim=1)
        mask = exists[:, None, None, :]
        x = self.embed_state(inputs.state).float()
        *blocks, last = self.expert.layers
        extended = []
        for block, past in zip(blocks, layers[:-1], strict=True):
            x, own = block(x, position, mask, past)
            extended.append(extend(past, own))
        extended.append(extend(layers[-1], last.keys_values(x, position)))
        return super().suffix_prefix(inputs, tuple(extended), exists)

    def embed_state(self, state: torch.Tensor) -> torch.Tensor:
        """state [B, state_width] -> its token [B, 1, width]."""
        return self.state_in(state.to(self.state_in.weight.dtype))[:, None]

    def condition(self, time: torch.Tensor) -> torch.Tensor:
        """The part of the time MLP's first layer that does not depend on the actions, with the
        action projection's bias folded in: [B, T, width]."""
        actions, times = self.time_in.weight.chunk(2, dim=1)
        bias = F.linear(self.action_in.bias, actions, self.time_in.bias)
        return F.linear(self.embed_time(time).to(times.dtype), times) + bias

    def embed_actions(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """x [B, H, action_width] -> action tokens [B, H, width]."""
        actions = self.time_in.weight.chunk(2, dim=1)[0]
        hidden = F.linear(F.linear(x.to(actions.dtype), self.action_in.weight), actions)
        return self.time_out(F.silu(hidden + condition))

    def velocity(self, x: torch.Tensor, prefix: Prefix, condition: torch.Tensor) -> torch.Tensor:
        tokens = self.embed_actions(x, condition).float()
        hidden = self.expert(tokens, prefix)
        return self.action_out(hidden.to(self.action_out.weight.dtype)).float()

    def fused(self, operators: Operators) -> FusedPi0:
        """The same function from fused operators, on these weights."""
        return FusedPi0(self, operators)
