# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""All layers of a Gemma action expert over one request's few rows, five launches a layer, on Hopper
(``cluster_product``, ``cluster_attention``).

Rows stay in the kernels' orders from the first layer to the last: the residual stream as groups in
float32, what products read, a copy of the stream among it, as fragments in 16 bits, or in 8 (E5M2)
for E4M3 weights, but in front of the first layer. A norm's shift is a bias
behind the product, so that a norm is one factor a row and one a column: the latter, and the squares
of which the former is made, are the stream's writer's, who has each number once where its readers
have it 64 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    add_norm,
    attention,
    cluster_attention,
    gated_linear,
    hidden_layer,
    regroup,
    rope_cache,
    stream_linear,
)
from phyai_ros.engine.kernels.cluster_attention import ClusterAttention
from phyai_ros.engine.kernels.cluster_product import ClusterProduct, Weight, through
from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.fragments import ROWS
from phyai_ros.engine.kernels.gemma_forms import Layer, forms, late
from phyai_ros.engine.kernels.hidden_layer import HiddenLayer
from phyai_ros.engine.quantize import QuantizedWeight


class Vectors(NamedTuple):
    """What a norm multiplies and adds, and the gate of the branch after it; [width]."""

    scale: torch.Tensor
    shift: torch.Tensor | None = None
    gate: torch.Tensor | None = None


class Folded(NamedTuple):
    """``Vectors`` whose shift went through the weight after the norm: bias [n]. All float32."""

    scale: torch.Tensor
    bias: torch.Tensor | None
    gate: torch.Tensor | None


class Linear(NamedTuple):
    """weight [out, in], bias [out]; float32."""

    weight: torch.Tensor
    bias: torch.Tensor


class FoldedStep(NamedTuple):
    """norms: two a layer. leave: what stands behind the final norm, that norm in it."""

    norms: list[Folded]
    leave: Linear


class Past(NamedTuple):
    """One layer's cache as its kernels take it: attention over it, and the rows of keys and values
    [tokens or more, d] that the chunk's own are written to."""

    attend: ClusterAttention
    key: torch.Tensor
    value: torch.Tensor


class Stream(NamedTuple):
    """The residual stream, groups in float32; its copy in 16 bits, fragments, times the scale of
    the norm that reads it next; and the sums of its squares (``into_squares``)."""

    groups: torch.Tensor
    copy: torch.Tensor
    squares: torch.Tensor


def reference(
    x: torch.Tensor, layers: Sequence[Layer], norms: Sequence[Vectors], key: torch.Tensor,
    value: torch.Tensor, exists: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *,
    heads: int, at: int, eps: float, alone: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The twin, of the twins of a layer's operators. x [tokens, width], left as it is. norms: two a
    layer. key, value [layers, 1, 1, L, d], whose rows at .. at + tokens are overwritten. exists
    bool [1, L]. cos, sin [1, tokens, d]. alone: of ``GemmaExpert``. In the dtype of key and value.
    -> x after the last layer, in front of the final norm."""
    x, dtype = x.clone(), key.dtype
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)

    def norm(v: Vectors) -> torch.Tensor:
        return add_norm.reference(
            x, None, kind="rms", eps=eps, dtype=dtype, scale=v.scale, shift=v.shift
        )

    def held(weight: Weight) -> Weight:
        return weight if isinstance(weight, QuantizedWeight) else weight.to(dtype)

    def add(y: torch.Tensor, gate: torch.Tensor | None) -> None:
        x.add_(y.to(x.dtype) if gate is None else y.to(x.dtype) * gate.to(x.dtype))

    for i, layer in enumerate(layers):
        first, second = norms[2 * i], norms[2 * i + 1]
        y = F.linear(norm(first), held(layer.qkv))
        q = rope_cache.reference(y, cos, sin, key[i], value[i], heads=heads, at=at)
        assert q is not None
        y = attention.reference(q, key[i], value[i], exists=exists, first_alone=alone)
        add(F.linear(y.flatten(0, 1), held(layer.output)), first.gate)
        y = gated_linear.reference(norm(second), held(layer.gate_up), "gelu_tanh")
        add(F.linear(y, held(layer.down)), second.gate)
    return x


class GemmaExpert:
    """The layers of one expert, for ``tokens`` rows of one request. Weights stay where they are,
    but of the first layer's qkv, where it is E4M3 and multiplies halves, there is a copy in another
    order. One call after another; their scratch is the same.

    alone: the first row sees no other of them and nothing is made of it: it is there for its keys
    and values. second: behind a hidden layer, what makes the other rows. dependent: launches start
    while the kernel in front ends. Raises ValueError where the kernels cannot serve these sizes
    (``fits``), CudaError or OSError where they cannot be compiled.
    """

    def __init__(
        self, layers: Sequence[Layer], *, tokens: int, heads: int, eps: float, alone: bool = False,
        second: Linear | None = None, dependent: bool,
    ):  # fmt: skip
        if not fits(layers, tokens, heads):
            raise ValueError(f"no kernels for {tokens} rows of {heads} heads of these layers")
        self._layers, self._eps, self._dependent = layers, eps, dependent
        self.tokens, self._alone = tokens, alone
        found = forms(layers[0], heads)
        assert found is not None
        self._products = [
            [
                ClusterProduct(w, f, dependent=dependent)
                for w, f in zip((x.qkv, x.output, x.gate_up, x.down), found, strict=True)
            ]
            for x in layers
        ]
        if found[0].takes:  # what enters is halves
            first = replace(found[0], takes="")
            self._products[0][0] = ClusterProduct(layers[0].qkv, first, dependent=dependent)
        weight = layers[0].output
        self._dtype = weight.dtype

        def room(width: int, leaves: str = "") -> torch.Tensor:
            """What a product of ``width`` columns reads: as ``Form.leaves`` says."""
            if leaves:
                return torch.zeros(width // 32, 128, 16, dtype=torch.uint8, device=weight.device)
            return torch.zeros(
                width // 16, 4, 32, 8, dtype=weight.dtype, device=weight.device
            )  # fmt: skip

        self._queries = room(weight.shape[1])
        # Of attention: what it leaves, and when the next launch may start.
        self._attends = found[1].takes, "attention" in late(found[1].fp8)
        self._attended = room(weight.shape[1], found[1].takes)
        self._hidden = room(layers[0].down.shape[1], found[2].leaves)
        self._left = room(weight.shape[0], found[1].leaves) if found[1].leaves else None
        self.hidden_layer: HiddenLayer | None = None
        if second is not None and hidden_layer.fits(second.weight):
            self.hidden_layer = HiddenLayer(
                second, weight.dtype, rows=tokens, given=int(alone), dependent=dependent
            )

    def folded(self, steps: Sequence[Sequence[Vectors]], leave: Linear) -> list[FoldedStep]:
        """Of every step, two norms a layer and the final one, behind which ``leave`` stands, as the
        kernels read them."""
        weights = [w for x in self._layers for w in (x.qkv, x.gate_up)]
        out = []
        for step in steps:
            scale, shift, _ = step[-1]
            bias = leave.bias if shift is None else leave.bias + through(leave.weight, shift)
            out.append(FoldedStep([], Linear(leave.weight * scale, bias)))
        for i, weight in enumerate(weights):
            shifts = [s for step in steps if (s := step[i].shift) is not None]
            biases = None
            if shifts:
                biases = through(weight, torch.stack(shifts, dim=1)).t().contiguous()
            for j, step in enumerate(steps):
                mine = None if biases is None else biases[j]
                out[j].norms.append(Folded(step[i].scale, mine, step[i].gate))
        return out

    def takes(self, at: int, tokens: int) -> bool:
        """Of one request: ``at`` rows of the cache in front of ``tokens`` of its own."""
        return 1 <= at <= cluster_attention.LONGEST_PREFIX and tokens == self.tokens

    def over(self, key: torch.Tensor, value: torch.Tensor, *, at: int) -> list[Past]:
        """key, value [layers, L, d] of a cache with ``at`` rows in front of the chunk's."""
        leaves, later = self._attends
        return [
            Past(
                ClusterAttention(
                    k, v, at=at, rows=self.tokens, alone=self._alone, leaves=leaves, late=later,
                    dependent=self._dependent,
                ),
                k[at:], v[at:],
            )
            for k, v in zip(key, value, strict=True)
        ]  # fmt: skip

    def enter(self, x: torch.Tensor, scale: torch.Tensor, linear: Linear | None = None) -> Stream:
        """x [tokens, width], or what ``linear`` makes it of; float32, contiguous. scale: of the
        first norm. Where there is a ``hidden_layer``, a stream may come out of that instead."""
        dtype, dependent = self._dtype, self._dependent
        if linear is None:
            return Stream(*regroup.fused_into(x, dtype, scale, dependent=dependent))
        return Stream(*stream_linear.fused_into(x, *linear, dtype, scale, dependent=dependent))

    def leave(self, stream: Stream, linear: Linear, euler: Euler | None = None) -> torch.Tensor:
        """linear: ``FoldedStep.leave``. -> [tokens, out] float32, but for a row ``alone``; or what
        ``euler`` makes of that velocity."""
        return stream_linear.fused_out(
            stream.groups, self.tokens, *linear, self._eps, euler=euler, first=int(self._alone),
            dependent=self._dependent,
        )  # fmt: skip

    def __call__(
        self, stream: Stream, past: Sequence[Past], exists: torch.Tensor, cos: torch.Tensor,
        sin: torch.Tensor, norms: Sequence[Folded],
    ) -> None:  # fmt: skip
        """stream: of ``enter`` with the first norm's scale, taken through every layer in place.
        past: of ``over``. exists bool [at + tokens]. cos, sin float32 [tokens, d].

        The prefix and ``exists`` are read before the kernels in front have ended, by kernels that
        start before those in front of them have. So some launch that is not early has to stand
        between what writes the two and this call: it began when they had been written, and what
        comes behind it begins later still. ``norms`` and weights are of the load.
        """
        rows, eps, (x, copy, squares) = self.tokens, self._eps, stream
        read = copy if self._left is None else self._left
        left: dict[str, Any] = {"rows": rows, "x": x, "out": read, "squares": squares}
        scales = [norm.scale for norm in norms[1:]] + [None]  # behind the last is ``leave``
        for i, (qkv, output, gate_up, down) in enumerate(self._products):
            one, two, here = norms[2 * i], norms[2 * i + 1], past[i]
            qkv(
                read if i else copy, rows=rows, out=self._queries, squares=squares, bias=one.bias,
                eps=eps, key=here.key, value=here.value, cos=cos, sin=sin,
            )  # fmt: skip
            here.attend(self._queries, exists, out=self._attended)
            output(self._attended, gate=one.gate, scale=scales[2 * i], **left)
            gate_up(read, rows=rows, out=self._hidden, squares=squares, bias=two.bias, eps=eps)
            down(self._hidden, gate=two.gate, scale=scales[2 * i + 1], **left)


def fits(layers: Sequence[Layer], tokens: int, heads: int) -> bool:
    """Whether the kernels were written for these sizes and this device."""
    found = {forms(layer, heads) for layer in layers}
    return 1 <= tokens <= ROWS and len(found) == 1 and None not in found
