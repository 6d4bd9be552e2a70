# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert from fused operators: layer by layer on any shape, and for one request's chunk
in five launches a layer where ``kernels/llama_expert.py`` can and was measured to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from phyai_ros.engine.kernels import llama_expert
from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.llama_expert import Layer, Linear, LlamaExpert, Past, Tables
from phyai_ros.engine.layers.clusters import Clusters
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.models.smolvla.backbone import DecoderLayer


class FusedPrefix(NamedTuple):
    """keys, values: of each expert layer [B, kv_heads, L, head_dim], where it attends to itself
    with room for the actions' own at the end; a token's heads lie side by side. exists: bool [B,
    P]; joint: the same and the actions. positions: of the actions behind the prefix. past: keys and
    values as clusters take them, None where they cannot serve them."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    exists: torch.Tensor
    joint: torch.Tensor
    positions: Tables
    past: list[Past] | None


class FusedExpert:
    """With the layers around it. enter: the second layer of the time MLP; last: the final norm's
    scale, float32; leave: what makes a velocity of its rows. heads, kv: of queries, and of keys and
    values. tokens: rows of a chunk."""

    def __init__(
        self, layers: Sequence[Layer], enter: Linear, last: torch.Tensor, leave: Linear, *,
        heads: int, kv: int, eps: float, tokens: int, operators: Operators,
    ):  # fmt: skip
        self._layers, self._last, self._heads, self._eps = layers, last, heads, eps
        self._enter, self._leave = enter, leave
        self._kv, self._tokens, self._operators = kv, tokens, operators
        self.clusters = Clusters("action expert", self._made)

    def _made(self) -> LlamaExpert | None:
        ops = self._operators
        if not isinstance(ops, FastOperators):
            return None
        weight, bias = self._leave
        leave = (weight * self._last).contiguous(), bias
        if not llama_expert.fits(
            self._layers, self._enter[0], leave[0], self._tokens, self._heads, self._kv
        ):
            return None
        return LlamaExpert(
            self._layers, self._enter, leave, tokens=self._tokens, heads=self._heads, kv=self._kv,
            eps=self._eps, dependent=ops.dependent,
        )  # fmt: skip

    def past(
        self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> list[Past] | None:
        """Of ``FusedPrefix.keys`` and ``values``, its ``past``."""
        kernels = self.clusters.kernels
        if kernels is None or len(keys[0]) != 1:
            return None
        rows = [[t[0].transpose(0, 1).flatten(1) for t in side] for side in (keys, values)]
        return self.clusters.attempt(lambda: kernels.over(*rows))

    def __call__(
        self, x: torch.Tensor, hidden: Linear, prefix: FusedPrefix, rows: Tables, *,
        first: bool, euler: Euler | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """x [B tokens, actions]. hidden: the time MLP's first layer, folded, with a step's time in
        its bias. rows: rotation of layers that do not attend to themselves. first: of a request's
        steps. -> what ``leave`` makes of the expert's rows, float32, or what ``euler`` makes of
        that velocity."""
        x = x.to(hidden[0].dtype)
        kernels, past = self.clusters.kernels, prefix.past

        def layers(x: torch.Tensor) -> torch.Tensor:
            return self._operators.stepped(self._by_operators(x, hidden, prefix, rows), euler)

        if kernels is None or past is None:
            return layers(x)

        def launches(x: torch.Tensor) -> torch.Tensor:
            own, apart = ((cos[0], sin[0]) for cos, sin in (prefix.positions, rows))
            return kernels(x, hidden, past, prefix.joint[0], own, apart, euler=euler, first=first)

        return self.clusters.faster(self._operators, self._name(prefix), x, launches, layers)

    def _name(self, prefix: FusedPrefix) -> str:
        (width, inner), keys = self._layers[0].down.shape, prefix.exists.shape[1]
        d = prefix.keys[0].shape[-1]
        return (
            f"llama expert B1 T{self._tokens} {len(self._layers)}x{width}x{inner} "
            f"H{self._heads}/{self._kv} d{d} L{-(-keys // 64) * 64} "
            f"{str(prefix.keys[0].dtype).removeprefix('torch.')}"
        )

    def _by_operators(
        self, x: torch.Tensor, hidden: Linear, prefix: FusedPrefix, rows: Tables
    ) -> torch.Tensor:
        ops, length, branch = self._operators, prefix.exists.shape[1], None
        x = ops.linear(ops.row_linear(x, *hidden, "silu"), *self._enter).float()
        for layer, key, value in zip(self._layers, prefix.keys, prefix.values, strict=True):
            h = self._norm(x, branch, layer.norms[0], key.dtype)
            y = ops.linear_parts(h, layer.qkv)
            if layer.own:
                q = ops.rope_cache(y, *prefix.positions, key, value, heads=self._heads, at=length)
                assert q is not None
                y = ops.attention(q, key, value, exists=prefix.joint, causal=True)
            else:
                none = key[:, :0]
                q = ops.rope_cache(y, *rows, none, none, heads=self._heads)
                assert q is not None
                y = ops.attention(q, key, value, exists=prefix.exists)
            branch = ops.linear_parts(y.flatten(0, 1), layer.output)
            h = self._norm(x, branch, layer.norms[1], key.dtype)
            branch = ops.linear_parts(ops.gated_linear(h, layer.gate_up, "silu"), layer.down)
        h = self._norm(x, branch, self._last, torch.float32)
        weight, bias = self._leave
        return ops.row_linear(h.to(weight.dtype), weight, bias).float()

    def _norm(
        self,
        x: torch.Tensor,
        branch: torch.Tensor | None,
        scale: torch.Tensor,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        return norm(self._operators, x, branch, scale, self._eps, dtype)


def norm(
    ops: Operators,
    x: torch.Tensor,
    branch: torch.Tensor | None,
    scale: torch.Tensor,
    eps: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    return ops.add_norm(x, branch, kind="rms", eps=eps, dtype=dtype, scale=scale)


def packed(layer: DecoderLayer, own: bool) -> Layer:
    """own: whether it has keys and values of its own."""
    attn, mlp = layer.self_attn, layer.mlp
    parts = (attn.q_proj, attn.k_proj, attn.v_proj) if own else (attn.q_proj,)
    norms = (layer.input_layernorm.weight, layer.post_attention_layernorm.weight)
    return Layer(
        (norms[0].float(), norms[1].float()),
        torch.cat([p.weight for p in parts]),
        attn.o_proj.weight,
        torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        mlp.down_proj.weight,
        own,
    )
