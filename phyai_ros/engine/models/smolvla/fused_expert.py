# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert from fused operators: layer by layer on any shape, and for one request's chunk
in five launches a layer where ``kernels/llama_expert.py`` can and was measured to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from phyai_ros.engine.kernels import llama_expert
from phyai_ros.engine.kernels.llama_expert import Layer, LlamaExpert, Past, Tables
from phyai_ros.engine.layers.clusters import Clusters
from phyai_ros.engine.layers.select import FastOperators, Operators


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
    """last: the final norm's scale, float32. heads, kv: of queries, and of keys and values. tokens:
    rows of a chunk."""

    def __init__(
        self, layers: Sequence[Layer], last: torch.Tensor, *, heads: int, kv: int, eps: float,
        tokens: int, operators: Operators,
    ):  # fmt: skip
        self._layers, self._last, self._heads, self._eps = layers, last, heads, eps
        self._kv, self._tokens, self._operators = kv, tokens, operators
        self.clusters = Clusters("action expert", self._made)

    def _made(self) -> LlamaExpert | None:
        ops = self._operators
        if not isinstance(ops, FastOperators):
            return None
        if not llama_expert.fits(self._layers, self._tokens, self._heads, self._kv):
            return None
        return LlamaExpert(
            self._layers, tokens=self._tokens, heads=self._heads, kv=self._kv, eps=self._eps,
            dependent=ops.dependent,
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

    def __call__(self, x: torch.Tensor, prefix: FusedPrefix, rows: Tables) -> torch.Tensor:
        """x [B tokens, width] float32, used up. rows: rotation of layers that do not attend to
        themselves. -> float32 after the final norm."""
        kernels, past = self.clusters.kernels, prefix.past
        if kernels is None or past is None:
            return self._by_operators(x, prefix, rows)

        def launches(x: torch.Tensor) -> torch.Tensor:
            own, apart = ((cos[0], sin[0]) for cos, sin in (prefix.positions, rows))
            x = kernels(x, past, prefix.joint[0], own, apart)
            return self._norm(x, None, self._last, torch.float32)

        return self.clusters.faster(
            self._operators, self._name(prefix), x, launches,
            lambda x: self._by_operators(x, prefix, rows),
        )  # fmt: skip

    def _name(self, prefix: FusedPrefix) -> str:
        (width, inner), keys = self._layers[0].down.shape, prefix.exists.shape[1]
        d = prefix.keys[0].shape[-1]
        return (
            f"llama expert B1 T{self._tokens} {len(self._layers)}x{width}x{inner} "
            f"H{self._heads}/{self._kv} d{d} L{-(-keys // 64) * 64} "
            f"{str(prefix.keys[0].dtype).removeprefix('torch.')}"
        )

    def _by_operators(self, x: torch.Tensor, prefix: FusedPrefix, rows: Tables) -> torch.Tensor:
        ops, length, branch = self._operators, prefix.exists.shape[1], None
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
        return self._norm(x, branch, self._last, torch.float32)

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
