# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The language model over a prefix, for nothing but its keys and values, from fused operators.

A layer writes them where they stay: beside room for the actions' own keys where the expert attends
to them, and side by side where it reads them through projections of its own, so that one product
makes all of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from phyai_ros.engine.kernels.llama_expert import Layer, Tables
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.smolvla.fused_expert import norm, packed
from phyai_ros.engine.models.smolvla.model import SmolVlaModel

_OWN, _CROSS, _UNREAD = range(3)
"""How the expert looks at a layer's keys: beside its own, through projections, not at all."""


class _Place(NamedTuple):
    """One of _OWN, _CROSS, _UNREAD, and which of its layers."""

    kind: int
    nth: int


class FusedLanguage:
    def __init__(self, model: SmolVlaModel, operators: Operators):
        self._operators, self._config = operators, model.config
        text = model.config.vlm.text
        self._heads, self._kv, self._d = (
            text.num_attention_heads, text.num_key_value_heads, text.head_dim,
        )  # fmt: skip
        self._layers: list[Layer] = [packed(layer, True) for layer in model.text_model.layers]
        self._places: list[_Place] = []
        self._counts = [0, 0, 0]
        readers = []
        for i, expert in enumerate(model.config.expert_of):
            own = model.config.attends_itself(i)
            kind = _UNREAD if expert is None else _OWN if own else _CROSS
            self._places.append(_Place(kind, self._counts[kind]))
            self._counts[kind] += 1
            if expert is not None and not own:
                readers.append(model.lm_expert.layers.at(expert).self_attn)
        linears = [r.k_proj for r in readers] + [r.v_proj for r in readers]
        self._projections = torch.stack([p.weight.t() for p in linears]) if readers else None

    def __call__(
        self, x: torch.Tensor, exists: torch.Tensor, positions: Tables, *, behind: int
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """x float32 [B P, hidden], used up. exists bool [B, P]. positions: cos and sin [B, P, d].
        -> keys and values as ``FusedPrefix`` has them, with room for ``behind`` rows, which are
        not written yet."""
        batch, length = exists.shape
        first = self._layers[0].qkv

        def sides(kind: int, rows: int) -> torch.Tensor:
            """Keys and values of these layers, [2, layers, ...]."""
            return first.new_empty(2, self._counts[kind], batch, rows, self._kv, self._d)

        own = sides(_OWN, length + behind)
        cross, unread = (sides(kind, length) for kind in (_CROSS, _UNREAD))
        self._fill(x, exists, positions, (own[:, :, :, :length], cross, unread))
        if self._projections is not None:
            rows = cross.view(len(self._projections), batch * length, self._kv * self._d)
            cross = torch.bmm(rows, self._projections).view(cross.shape)
        keys, values = (
            tuple(
                (own, cross)[place.kind][side, place.nth].transpose(1, 2)
                for place in self._places
                if place.kind != _UNREAD
            )
            for side in range(2)
        )
        return keys, values

    def _fill(
        self,
        x: torch.Tensor,
        exists: torch.Tensor,
        positions: Tables,
        caches: Sequence[torch.Tensor],
    ) -> None:
        ops, eps, branch = self._operators, self._config.vlm.text.rms_norm_eps, None
        for layer, place in zip(self._layers, self._places, strict=True):
            dtype = layer.qkv.dtype
            key, value = (side[place.nth].transpose(1, 2) for side in caches[place.kind])
            h = norm(ops, x, branch, layer.norms[0], eps, dtype)
            weight, heads = layer.qkv, self._heads
            if layer is self._layers[-1]:  # of which keys and values are all that is read
                weight, heads = weight[heads * self._d :], 0
            y = ops.linear_parts(h, weight)
            q = ops.rope_cache(y, *positions, key, value, heads=heads)
            if q is None:
                break
            y = ops.attention(q, key, value, exists=exists, own_last=True).flatten(0, 1)
            branch = ops.linear_parts(y, layer.output)
            h = norm(ops, x, branch, layer.norms[1], eps, dtype)
            branch = ops.linear_parts(ops.gated_linear(h, layer.gate_up, "silu"), layer.down)
