# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""All layers of a Llama-like action expert over one request's few rows, five launches a layer, on
Hopper (``cluster_product``, ``head_attention``). A layer attends to a prefix and to its own rows,
causally, or to a prefix alone.

Rows stay in the kernels' orders from the first layer to the last, as in ``gemma_expert``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    add_norm,
    attention,
    gated_linear,
    head_attention,
    regroup,
    rope_cache,
)
from phyai_ros.engine.kernels.cluster_product import ClusterProduct, Form, usable
from phyai_ros.engine.kernels.head_attention import HeadAttention

_STEP = 256
"""Attention's columns are filled to a multiple of this, so that four blocks can share them."""
_DEEPEST = {"rms": 384, "": 512}
"""Of a warpgroup's share of the depth, whose operands are in registers; by the norm in front."""
_SHAPES = {
    "rope": ((2, 2, 32), (2, 1, 16), (1, 1, 16)),
    "output": ((4, 1, 16), (2, 1, 16), (1, 1, 16)),
    "down": ((4, 2, 32), (4, 1, 16), (2, 1, 16), (1, 1, 16)),
    "gated": ((4, 1, 32), (2, 1, 32), (1, 1, 16)),
}
"""Blocks of a cluster, warpgroups of a block, half the columns: the first that fits is taken."""
_REGISTERS = 168
"""Of a thread: blocks of two kernels stand beside each other."""

Tables = tuple[torch.Tensor, torch.Tensor]
"""cos and sin, float32 [tokens, d]."""


class Layer(NamedTuple):
    """norms: float32 scales, [width] each, in front of ``qkv`` and of ``gate_up``. Weights [out,
    in]: packed queries, keys and values, or queries alone where the layer has no ``own`` keys;
    output; gates and ups; down. The activation is SiLU."""

    norms: tuple[torch.Tensor, torch.Tensor]
    qkv: torch.Tensor
    output: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    own: bool


class Past(NamedTuple):
    """Attention over one layer's cache, and the rows [tokens, kv d] that the layer's own keys and
    values are written to, where it makes them."""

    attend: HeadAttention
    key: torch.Tensor | None = None
    value: torch.Tensor | None = None


def form(
    kind: str, weight: torch.Tensor, *, d: int = 64, heads: int = 0, kv: int = 0
) -> Form | None:
    """How a product of a layer runs (kind: of ``_SHAPES``); None where no form fits it."""
    (n, k), norm, epilogue = weight.shape, "rms", kind
    if kind in ("output", "down"):
        k, norm, epilogue = -(-k // _STEP) * _STEP, "", "residual"
    activation = "silu" if kind == "gated" else ""
    for blocks, groups, half in _SHAPES[kind]:
        made = Form(
            n, k, blocks, groups, half, epilogue, norm, activation,
            registers=_REGISTERS, d=d, heads=heads, kv=kv,
        )  # fmt: skip
        if made.fits() and made.depth <= _DEEPEST[norm]:
            return made
    return None


def forms(layer: Layer, heads: int, kv: int) -> tuple[Form, Form, Form, Form] | None:
    """Of its weights, in order; None where the kernels cannot serve it: other sizes, precision or
    device."""
    weights = (layer.qkv, layer.output, layer.gate_up, layer.down)
    first = weights[0]
    if not usable(first.device) or not all(
        w.is_contiguous() and w.dtype == first.dtype for w in weights
    ):
        return None
    d = layer.output.shape[1] // heads
    found = (
        form("rope", layer.qkv, d=d, heads=heads, kv=kv if layer.own else 0),
        form("output", layer.output),
        form("gated", layer.gate_up),
        form("down", layer.down),
    )
    return None if None in found else found  # type: ignore[return-value]


def fits(layers: Sequence[Layer], tokens: int, heads: int, kv: int) -> bool:
    """Whether the kernels were written for these sizes and this device."""
    first = layers[0].output
    return head_attention.fits(
        first.shape[1] // heads, tokens, tokens, first.dtype, first.device
    ) and all(forms(layer, heads, kv) is not None for layer in layers)


class LlamaExpert:
    """For ``tokens`` rows of one request. Keeps no copy of a weight: the weights stay where they
    are. One call after another; their scratch is the same.

    kv: heads of keys and values. dependent: launches start while the kernel in front ends. Raises
    ValueError where the kernels cannot serve these sizes (``fits``), CudaError or OSError where
    they cannot be compiled.
    """

    def __init__(
        self, layers: Sequence[Layer], *, tokens: int, heads: int, kv: int, eps: float,
        dependent: bool,
    ):  # fmt: skip
        if not fits(layers, tokens, heads, kv):
            raise ValueError(f"no kernels for {tokens} rows of {heads} heads of these layers")
        self._layers, self.tokens, self._eps, self._dependent = layers, tokens, eps, dependent
        self._products = []
        for x in layers:
            found = forms(x, heads, kv)
            assert found is not None
            pairs = zip((x.qkv, x.output, x.gate_up, x.down), found, strict=True)
            self._products.append([ClusterProduct(w, f, dependent=dependent) for w, f in pairs])
        self._d = layers[0].output.shape[1] // heads

        def scratch(product: ClusterProduct) -> torch.Tensor:
            weight = product.weight
            shape = product.form.k // 16, 4, 32, 8
            return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

        _, output, _, down = self._products[0]
        self._attended, self._hidden = scratch(output), scratch(down)
        self._queries = self._attended[: heads * self._d // 16].clone()

    def over(
        self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> list[Past] | None:
        """By layer [L, kv d], with room for ``tokens`` own rows at the end where it makes them.
        None where there are more keys than the kernel takes."""
        past = []
        for layer, key, value in zip(self._layers, keys, values, strict=True):
            own = self.tokens if layer.own else 0
            if not head_attention.fits(self._d, len(key), self.tokens, key.dtype, key.device, own):
                return None
            attend = HeadAttention(
                key, value, self._d, constant=True, own=own, causal=layer.own, fragments=True,
                dependent=self._dependent,
            )  # fmt: skip
            rows = (key[-own:], value[-own:]) if own else ()
            past.append(Past(attend, *rows))
        return past

    def __call__(
        self,
        x: torch.Tensor,
        past: Sequence[Past],
        exists: torch.Tensor,
        own: Tables,
        apart: Tables,
    ) -> torch.Tensor:
        """x [tokens, width] float32, contiguous. past: of ``over``. exists: bool, of the prefix's
        keys and the own. own: rotation of layers with own keys; apart: of the others. -> x after
        the last layer, in front of the final norm.

        A request's keys, values, ``exists`` and tables are read by kernels that have not waited
        for those in front. They are complete all the same: here, a plain launch (the first, of
        ``regroup``) begins when everything in front of it has ended, and what comes behind it
        begins later.
        """
        rows, eps = self.tokens, self._eps
        x, copy = regroup.fused_into(x, self._hidden.dtype)
        for layer, here, (qkv, output, gate_up, down) in zip(
            self._layers, past, self._products, strict=True
        ):
            one, two = layer.norms
            cos, sin = own if layer.own else apart
            qkv(
                copy, rows=rows, out=self._queries, scale=one, eps=eps, key=here.key,
                value=here.value, cos=cos, sin=sin,
            )  # fmt: skip
            here.attend(self._queries, out=self._attended, rows=rows, exists=exists)
            output(self._attended, rows=rows, x=x, out=copy)
            gate_up(copy, rows=rows, out=self._hidden, scale=two, eps=eps)
            down(self._hidden, rows=rows, x=x, out=copy)
        return regroup.fused_from(x, rows, dependent=self._dependent)


def reference(
    x: torch.Tensor,
    layers: Sequence[Layer],
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    exists: torch.Tensor,
    own: Tables,
    apart: Tables,
    *,
    heads: int,
    kv: int,
    eps: float,
) -> torch.Tensor:
    """The twin, of the twins of a layer's operators, in the dtype of x [tokens, width]. keys,
    values: as ``LlamaExpert.over`` takes them. All are left as they are."""
    x, wide, rows = x.clone(), x.dtype, len(x)
    d = layers[0].output.shape[1] // heads

    def norm(scale: torch.Tensor) -> torch.Tensor:
        return add_norm.reference(x, None, kind="rms", eps=eps, dtype=wide, scale=scale)

    for layer, key, value in zip(layers, keys, values, strict=True):
        y = F.linear(norm(layer.norms[0]), layer.qkv.to(wide))
        key, value = (
            t.to(wide, copy=True)[None].unflatten(2, (kv, d)).transpose(1, 2) for t in (key, value)
        )
        cos, sin = (t.to(wide)[None] for t in (own if layer.own else apart))
        k, v = (key, value) if layer.own else (key[:, :0], value[:, :0])
        q = rope_cache.reference(y, cos, sin, k, v, heads=heads, at=key.shape[2] - rows)
        assert q is not None
        there = exists[None, : key.shape[2]]
        y = attention.reference(q, key, value, exists=there, causal=layer.own)[0]
        x.add_(F.linear(y, layer.output.to(wide)))
        y = gated_linear.reference(norm(layer.norms[1]), layer.gate_up.to(wide), "silu")
        x.add_(F.linear(y, layer.down.to(wide)))
    return x
