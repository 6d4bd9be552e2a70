# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What every operator is: plain torch twins, on any device and in any dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from phyai_ros.engine.kernels import (
    add_norm,
    attention,
    flow_places,
    flow_step,
    flow_tokens,
    gated_linear,
    letterbox,
    patches,
    place_rows,
    prefix_places,
    prefix_rows,
    rope_cache,
    row_linear,
    skinny_linear,
    token_rows,
)
from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer
from phyai_ros.engine.layers import tune

LIBRARY = "library"
"""The choice of torch's own kernels, in a table of operators."""


class Operators:
    """Every operator's definition. Arguments are those of the kernels' twins."""

    add_norm = staticmethod(add_norm.reference)
    linear = staticmethod(skinny_linear.reference)
    branch: Any = staticmethod(skinny_linear.reference)
    """``linear`` whose result the next ``add_norm`` or ``rope_cache`` takes, and nobody else."""
    linear_parts = staticmethod(skinny_linear.reference_parts)
    gated_linear: Any = staticmethod(gated_linear.reference)

    def gated_branch(self, x: Any, gate_up: Any, down: Any, activation: str) -> Any:
        """``branch`` of what ``gated_linear`` gives, in whatever form suits the two."""
        return self.branch(self.gated_linear(x, gate_up, activation), down)

    rope_cache = staticmethod(rope_cache.reference)
    row_linear = staticmethod(row_linear.reference)
    flow_step = staticmethod(flow_step.reference)
    token_rows = staticmethod(token_rows.reference)
    attention = staticmethod(attention.reference)
    letterbox = staticmethod(letterbox.reference)
    place_rows = staticmethod(place_rows.reference)
    flow_places = staticmethod(flow_places.reference)
    flow_tokens = staticmethod(flow_tokens.reference)
    patches = staticmethod(patches.reference)
    prefix_rows = staticmethod(prefix_rows.reference)
    prefix_places = staticmethod(prefix_places.reference)

    def waiting(self) -> AbstractContextManager[None]:
        """Inside, no kernel starts before the one in front of it has ended."""
        return nullcontext()

    def layer_norm(
        self, x: torch.Tensor, branch: Any, norm: nn.LayerNorm, dtype: torch.dtype, **options: Any
    ) -> Any:
        """``add_norm`` with the scale, the shift and the epsilon of ``norm``."""
        return self.add_norm(
            x, branch, kind="layer", eps=norm.eps, dtype=dtype, scale=norm.weight, shift=norm.bias,
            **options,
        )  # fmt: skip

    def stepped(self, v: torch.Tensor, euler: Euler | None) -> torch.Tensor:
        """v [rows, n], a velocity; or what ``euler``, of the same shape, makes of it."""
        if euler is None:
            return v
        x, target, weights, numbers = euler
        return self.flow_step(x, v, target, weights, **numbers._asdict())

    def gemma_expert(self, layers: Sequence[Layer], **sizes: Any) -> GemmaExpert | None:
        """All of an expert's layers in few launches, where there are kernels for it."""
        return None

    def chosen(self, key: str, candidates: Mapping[str, tune.Candidate]) -> str:
        """The candidate that was measured to be the fastest; LIBRARY is one of them."""
        return LIBRARY
