# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action head's DiT from fused operators: operator by operator on any shape, and for one
request in five launches a layer where ``kernels/dit_layers.py`` can and was measured to be
faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from phyai_ros.engine.kernels import dit_layers
from phyai_ros.engine.kernels.dit_layers import DitLayers, Folded, Layer, Linear, Modulation
from phyai_ros.engine.kernels.head_attention import HeadAttention
from phyai_ros.engine.layers.clusters import Clusters
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.models.gr00t_n17.dit import Attention, DiT
from phyai_ros.engine.quantize import QuantizedWeight, reads

_LN, _OUT = 1e-5, 1e-6


@dataclass(frozen=True)
class DitPrefix:
    """keys, values: per block [B, heads, L, head_dim], None where it attends to itself. exists:
    per block, bool [B, L] or None. past: keys and values as clusters take them, None where they
    cannot serve them."""

    keys: list[torch.Tensor | None]
    values: list[torch.Tensor | None]
    exists: list[torch.Tensor | None]
    past: list[HeadAttention | None] | None


@dataclass(frozen=True)
class DitStep:
    """One denoising step's norms. blocks: of every block; out: the output's. folded: all of them
    for clusters, None where there are none."""

    blocks: list[Modulation]
    out: Modulation
    folded: list[Folded] | None


class FusedDit:
    """tokens: rows of a request."""

    def __init__(self, dit: DiT, tokens: int, operators: Operators):
        self._dit, self._operators, self._tokens = dit, operators, tokens
        self._blocks = list(dit.modulated())
        with torch.no_grad():
            self._own = {i: packed(b.attn1) for i, b in enumerate(self._blocks) if dit.is_self(i)}
        layers = []
        for i, block in enumerate(self._blocks):
            q = block.attn1.to_q
            up, down = feed_forward(block)
            layers.append(
                Layer(
                    self._own.get(i, (q.weight, q.bias)), _of(out(block.attn1)), _of(up), _of(down)
                )
            )
        self._fp8 = any(isinstance(w, QuantizedWeight) for layer in layers for w, _ in layer)
        self.clusters = Clusters("DiT", lambda: self._made(layers))

    def _made(self, layers: Sequence[Layer]) -> DitLayers | None:
        last, heads = _of(self._dit.proj_out_2), self._dit.config.heads
        ops = self._operators
        if not isinstance(ops, FastOperators):
            return None
        if not dit_layers.fits(layers, last, self._tokens, heads):
            return None
        return DitLayers(
            layers, last, tokens=self._tokens, heads=heads, eps=_LN, last_eps=_OUT,
            dependent=ops.dependent,
        )  # fmt: skip

    # -- once a load and once a request ----------------------------------------------------------
    def steps(self, of: Sequence[tuple[Sequence[Modulation], Modulation]]) -> list[DitStep]:
        """Of every step, (1 + scale, shift) of the blocks and of the output, any shape."""
        flat = [([_flat(m) for m in blocks], _flat(last)) for blocks, last in of]
        kernels = self.clusters.kernels
        folded: Sequence[list[Folded] | None] = [None] * len(flat)
        if kernels is not None:
            folded = kernels.folded([[*blocks, last] for blocks, last in flat])
        return [DitStep(b, last, f) for (b, last), f in zip(flat, folded, strict=True)]

    def prefix(
        self,
        keys: list[torch.Tensor | None],
        values: list[torch.Tensor | None],
        exists: list[torch.Tensor | None],
    ) -> DitPrefix:
        kernels, given = self.clusters.kernels, next((k for k in keys if k is not None), None)
        past = None
        if kernels is not None and (given is None or len(given) == 1):
            rows = [
                [None if t is None else t[0].transpose(0, 1).flatten(1) for t in side]
                for side in (keys, values)
            ]
            past = self.clusters.attempt(lambda: kernels.over(*rows))
        return DitPrefix(keys, values, exists, past)

    # -- once a denoising step -------------------------------------------------------------------
    def __call__(
        self, x: torch.Tensor, batch: int, prefix: DitPrefix, step: DitStep
    ) -> torch.Tensor:
        """x [B T, inner] float32, used up -> [B T, output]."""
        kernels, past, folded = self.clusters.kernels, prefix.past, step.folded
        if kernels is None or past is None or folded is None or x.shape[0] != self._tokens:
            return self._by_operators(x, batch, prefix, step)

        def launches(x: torch.Tensor) -> torch.Tensor:
            exists = [None if e is None else e[0] for e in prefix.exists]
            return kernels(x, past, exists, folded)

        return self.clusters.faster(
            self._operators, self._name(prefix), x, launches,
            lambda x: self._by_operators(x, batch, prefix, step),
        )  # fmt: skip

    def _name(self, prefix: DitPrefix) -> str:
        c = self._dit.config
        keys = next((k.shape[2] for k in prefix.keys if k is not None), 0)
        dtype = str(self._dit.proj_out_2.weight.dtype).removeprefix("torch.")
        kind = "fp8 dit" if self._fp8 else "dit"
        return (
            f"{kind} B1 T{self._tokens} {c.layers}x{c.inner} H{c.heads} d{c.head_dim} "
            f"L{-(-keys // 64) * 64} {dtype}"
        )

    def _by_operators(
        self, x: torch.Tensor, batch: int, prefix: DitPrefix, step: DitStep
    ) -> torch.Tensor:
        ops, dit = self._operators, self._dit
        dtype, heads, d = dit.proj_out_2.weight.dtype, dit.config.heads, dit.config.head_dim
        branch, bias = None, None
        for i, block in enumerate(self._blocks):
            scale, shift = step.blocks[i]
            key, value, attn = prefix.keys[i], prefix.values[i], block.attn1
            query = self._own[i][0] if i in self._own else attn.to_q.weight
            h = ops.add_norm(
                x, branch, kind="layer", eps=_LN, dtype=reads(query), bias=bias, scale=scale,
                shift=shift,
            )  # fmt: skip
            if key is not None and value is not None:
                q = ops.linear_parts(h, attn.to_q.weight)
                q = q.view(len(q), batch, -1, heads, d)
                y = ops.attention(q, key, value, exists=prefix.exists[i], q_bias=attn.to_q.bias)
            else:
                y = ops.linear(h, *self._own[i]).view(batch, -1, 3, heads, d)
                q, key, value = y.unbind(2)
                y = ops.attention(q, key.transpose(1, 2), value.transpose(1, 2))
            branch = ops.linear_parts(y.flatten(0, 1), out(attn).weight)
            up, down = feed_forward(block)
            h = ops.add_norm(
                x, branch, kind="layer", eps=_LN, dtype=reads(up.weight), bias=out(attn).bias
            )
            branch = ops.linear_parts(ops.linear(h, up.weight, up.bias, "gelu_tanh"), down.weight)
            bias = down.bias
        scale, shift = step.out
        h = ops.add_norm(
            x, branch, kind="layer", eps=_OUT, dtype=dtype, bias=bias, scale=scale, shift=shift
        )
        return ops.linear(h, dit.proj_out_2.weight, dit.proj_out_2.bias)


def packed(attn: Attention) -> Linear:
    parts = (attn.to_q, attn.to_k, attn.to_v)
    return torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])


def out(attn: Attention) -> torch.nn.Linear:
    return cast(torch.nn.Linear, attn.to_out[0])


def feed_forward(block: Any) -> tuple[torch.nn.Linear, torch.nn.Linear]:
    """Up and down."""
    return block.ff.net[0].proj, block.ff.net[2]


def _of(linear: torch.nn.Linear) -> Linear:
    return linear.weight, linear.bias


def _flat(modulation: Modulation) -> Modulation:
    scale, shift = (m.float().flatten().contiguous() for m in modulation)
    return scale, shift
