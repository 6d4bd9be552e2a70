# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""All layers of a Llama-like action expert over one request's few rows, five launches a layer, on
Hopper (``cluster_product``, ``head_attention``). A layer attends to a prefix and to its own rows,
causally, or to a prefix alone, in four launches then, for attention makes the queries. A layer in
float32 stands in front of them, a projection behind.

Rows stay in the kernels' orders from the first layer to the last, as in ``gemma_expert``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    _cuda,
    add_norm,
    attention,
    gated_linear,
    head_attention,
    rope_cache,
    split_linear,
    stream_linear,
)
from phyai_ros.engine.kernels.cluster_product import ClusterProduct, Form
from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.head_attention import HeadAttention, Queries, Turn

_STEP = 256
"""Attention's columns are filled to a multiple of this, so that four blocks can share them."""
_DEEPEST = {"rms": 384, "": 512}
"""Of a warpgroup's share of the depth, whose operands are in registers; by the norm in front."""
_SHAPES = {
    "rope": ((2, 2, 32), (2, 1, 16), (1, 1, 16)),
    "output": ((4, 1, 16), (2, 1, 16), (1, 1, 16)),
    "down": ((8, 1, 32), (4, 1, 16), (2, 1, 16), (1, 1, 16)),
    "gated": ((2, 2, 32), (2, 1, 32), (1, 1, 16)),
    "enter": ((6, 1, 24), (4, 1, 16), (2, 1, 16), (1, 1, 16)),
}
"""Blocks of a cluster, warpgroups of a block, half the columns: the first that fits is taken."""
_REGISTERS = 168
"""Of a thread: blocks of two kernels stand beside each other."""
_MOST = {"gated": 1, "rope": 1}
"""``Form.most``: 128 blocks would have room on half of the multiprocessors, for they need few
registers, and then half of them would bring all weights (a solver of 2.46 ms instead of 2.20)."""
_LATE = frozenset({"gated"})
"""``Form.late``."""

Linear = tuple[torch.Tensor, torch.Tensor]
"""weight [out, in] and bias [out], float32."""
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
    values are written to, where it makes them. queries: whether attention makes them as well, of a
    layer that makes nothing else, so that it takes the stream's copy."""

    attend: HeadAttention
    queries: bool
    key: torch.Tensor | None = None
    value: torch.Tensor | None = None


def form(
    kind: str, shape: Sequence[int], *, d: int = 64, heads: int = 0, kv: int = 0
) -> Form | None:
    """How a product runs (kind: of ``_SHAPES``; shape: of its weight); None where no form fits."""
    (n, k), norm, epilogue = shape, "rms", kind
    if kind in ("output", "down", "enter"):
        k, norm, epilogue = -(-k // _STEP) * _STEP, "", "residual"
    activation = "silu" if kind == "gated" else ""
    for blocks, groups, half in _SHAPES[kind]:
        made = Form(
            n, k, blocks, groups, half, epilogue, norm, activation,
            registers=_REGISTERS, d=d, heads=heads, kv=kv, most=_MOST.get(kind, 0),
            late=kind in _LATE,
        )  # fmt: skip
        if made.fits() and made.depth <= _DEEPEST[norm]:
            return made
    return None


def forms(layer: Layer, heads: int, kv: int) -> tuple[Form, Form, Form, Form] | None:
    """Of its weights, in order; None where the kernels cannot serve it: other sizes, precision or
    device."""
    weights = (layer.qkv, layer.output, layer.gate_up, layer.down)
    first = weights[0]
    if not _cuda.is_hopper(first.device) or not all(
        w.is_contiguous() and w.dtype == first.dtype for w in weights
    ):
        return None
    d = layer.output.shape[1] // heads
    found = (
        form("rope", layer.qkv.shape, d=d, heads=heads, kv=kv if layer.own else 0),
        form("output", layer.output.shape),
        form("gated", layer.gate_up.shape),
        form("down", layer.down.shape),
    )
    return None if None in found else found  # type: ignore[return-value]


def fits(
    layers: Sequence[Layer], enter: torch.Tensor, leave: torch.Tensor, tokens: int, heads: int,
    kv: int,
) -> bool:  # fmt: skip
    """Whether the kernels were written for these sizes, weights and this device."""
    first = layers[0].output
    return (
        head_attention.fits(first.shape[1] // heads, tokens, tokens, first.dtype, first.device)
        and all(forms(layer, heads, kv) is not None for layer in layers)
        and enter.dtype == torch.float32
        and form("enter", (len(enter), 3 * enter.shape[1])) is not None
        and stream_linear.fits(leave)
    )


class LlamaExpert:
    """For ``tokens`` rows of one request. Keeps no copy of a layer's weight: the weights stay where
    they are. One call after another; their scratch is the same.

    enter: what makes the layers' rows of a hidden layer's. leave: behind the last norm, that norm's
    scale multiplied into it. kv: heads of keys and values. dependent: launches start while the
    kernel in front ends. Raises ValueError where the kernels cannot serve these sizes (``fits``),
    CudaError or OSError where they cannot be compiled.
    """

    def __init__(
        self, layers: Sequence[Layer], enter: Linear, leave: Linear, *, tokens: int, heads: int,
        kv: int, eps: float, dependent: bool,
    ):  # fmt: skip
        if not fits(layers, enter[0], leave[0], tokens, heads, kv):
            raise ValueError(f"no kernels for {tokens} rows of {heads} heads of these layers")
        self._layers, self.tokens, self._eps, self._dependent = layers, tokens, eps, dependent
        self._products = []
        for x in layers:
            found = forms(x, heads, kv)
            assert found is not None
            pairs = zip((x.qkv, x.output, x.gate_up, x.down), found, strict=True)
            self._products.append([ClusterProduct(w, f, dependent=dependent) for w, f in pairs])
        first = layers[0].output
        self._d, self._dtype, self._leave = first.shape[1] // heads, first.dtype, leave
        weight = split_linear.packed(enter[0], self._dtype)
        made = form("enter", weight.shape)
        assert made is not None
        self._enter = ClusterProduct(weight, made, dependent=dependent), enter[1]

        def scratch(width: int) -> torch.Tensor:
            return torch.zeros(width // 16, 4, 32, 8, dtype=first.dtype, device=first.device)

        _, output, _, down = self._products[0]
        self._queries, self._copy = scratch(first.shape[1]), scratch(first.shape[0])
        self._attended, self._hidden = scratch(output.form.k), scratch(down.form.k)
        self._split = scratch(made.k)
        self._x = torch.zeros(first.shape[0] // 8, 4, 32, 4, device=first.device)
        self._squares = torch.zeros(first.shape[0] // 8, 32, 2, device=first.device)

    def over(
        self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]
    ) -> list[Past] | None:
        """By layer [L, kv d], with room for ``tokens`` own rows at the end where it makes them.
        None where there are more keys than the kernel takes."""
        past = []
        for layer, key, value in zip(self._layers, keys, values, strict=True):
            own = self.tokens if layer.own else 0
            sizes = self._d, len(key), self.tokens, key.dtype, key.device, own
            if not head_attention.fits(*sizes):
                return None
            queries = None
            if not own and head_attention.fits(*sizes, width=layer.qkv.shape[1]):
                queries = Queries(layer.norms[0], layer.qkv)
            attend = HeadAttention(
                key, value, self._d, constant=True, own=own, causal=layer.own, fragments=True,
                queries=queries, dependent=self._dependent,
            )  # fmt: skip
            rows = (key[-own:], value[-own:]) if own else ()
            past.append(Past(attend, queries is not None, *rows))
        return past

    def __call__(
        self,
        x: torch.Tensor,
        hidden: Linear,
        past: Sequence[Past],
        exists: torch.Tensor,
        own: Tables,
        apart: Tables,
        *,
        euler: Euler | None = None,
        first: bool = True,
    ) -> torch.Tensor:
        """x [tokens, actions] float32, contiguous. hidden: of the hidden layer, whose activation is
        SiLU. past: of ``over``. exists: bool, of the prefix's keys and the own. own: rotation of
        layers with own keys; apart: of the others. -> [tokens, out of ``leave``] float32, or what
        ``euler`` makes of that velocity.

        A request's keys, values, ``exists`` and tables are read by kernels that have not waited
        for those in front. They are complete all the same: of a request's ``first`` call the first
        launch is a plain one, which begins when everything in front of it has ended, and what comes
        behind it begins later. Between the calls that follow nothing of this may be written.
        """
        rows, eps, copy, stream = self.tokens, self._eps, self._copy, self._x
        left: dict[str, Any] = {"rows": rows, "x": stream, "out": copy, "squares": self._squares}
        # Attention that makes queries norms a copy without a scale; behind the last is ``leave``.
        scales = [
            None if p.queries else x.norms[0] for x, p in zip(self._layers, past, strict=True)
        ]
        enter, bias = self._enter
        early = self._dependent and not first
        split_linear.fused_rows(x, *hidden, out=self._split, dependent=early)
        enter(self._split, bias=bias, begins=True, scale=scales[0], **left)
        for layer, here, scale, (qkv, output, gate_up, down) in zip(
            self._layers, past, [*scales[1:], None], self._products, strict=True
        ):
            cos, sin = own if layer.own else apart
            if here.queries:
                turn = Turn(cos, sin, eps)
                here.attend(copy, out=self._attended, rows=rows, exists=exists, turn=turn)
            else:
                qkv(
                    copy, rows=rows, out=self._queries, squares=self._squares, eps=eps,
                    key=here.key, value=here.value, cos=cos, sin=sin,
                )  # fmt: skip
                here.attend(self._queries, out=self._attended, rows=rows, exists=exists)
            output(self._attended, scale=layer.norms[1], **left)
            gate_up(copy, rows=rows, out=self._hidden, squares=self._squares, eps=eps)
            down(self._hidden, scale=scale, **left)
        return stream_linear.fused_out(
            stream, rows, *self._leave, eps, euler=euler, dependent=self._dependent
        )


def reference(
    x: torch.Tensor,
    layers: Sequence[Layer],
    hidden: Linear,
    enter: Linear,
    leave: Linear,
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
    """The twin, of the twins of a layer's operators, in the dtype of x [tokens, actions]. keys,
    values: as ``LlamaExpert.over`` takes them. All are left as they are."""
    wide, rows = x.dtype, len(x)
    d = layers[0].output.shape[1] // heads

    def linear(h: torch.Tensor, of: Linear) -> torch.Tensor:
        return F.linear(h, of[0].to(wide), of[1].to(wide))

    def norm(scale: torch.Tensor | None) -> torch.Tensor:
        return add_norm.reference(x, None, kind="rms", eps=eps, dtype=wide, scale=scale)

    x = linear(F.silu(linear(x, hidden)), enter)
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
    return linear(norm(None), leave)
