# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""All layers of a diffusion transformer over one request's few rows, five launches a layer, on
Hopper (``dit_product``, ``head_attention``). Layers attend to themselves or to keys that were
made once a request.

Rows stay in the kernels' orders from the first layer to the last, and what a step's modulation adds
went through the weights behind it once a load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from phyai_ros.engine.kernels import _cuda, attention, dit_product, head_attention
from phyai_ros.engine.kernels.dit_product import (
    DitProduct,
    Form,
    Stream,
    Weight,
    linear,
    sums_of,
    through,
)
from phyai_ros.engine.kernels.head_attention import HeadAttention
from phyai_ros.engine.kernels.skinny_linear import activate
from phyai_ros.engine.quantize import QuantizedWeight

_SHAPES = {
    "own": ((2, 2, 96, 224), (2, 1, 32, 224), (1, 1, 16, 224)),
    "cross": ((3, 2, 48, 224), (4, 1, 32, 224), (2, 1, 32, 224), (1, 1, 16, 224)),
    "output": ((4, 1, 64, 160), (2, 1, 32, 224), (1, 1, 16, 224)),
    "up": ((2, 2, 128, 224), (2, 2, 96, 176), (2, 1, 32, 224), (1, 1, 16, 224)),
    "down": (
        (6, 2, 96, 224), (8, 2, 128, 224), (4, 1, 32, 224), (2, 1, 32, 224), (1, 1, 16, 224)
    ),
    "last": ((4, 2, 64, 224), (2, 1, 32, 224), (1, 1, 16, 224)),
}  # fmt: skip
_FP8_SHAPES = {
    "own": ((2, 2, 96, 224), (1, 1, 16, 224)),
    "up": ((2, 2, 96, 168), (1, 1, 16, 224)),
    "down": ((6, 2, 96, 168), (1, 1, 16, 224)),
}
"""Blocks of a cluster, warpgroups of a block, columns, registers: the first that fits is taken.
Those of a layer of 1536 columns were the fastest together, in a graph of 32 layers. Each puts 96
blocks on the 132 multiprocessors, so that the next kernel's begin on those left over, but for
``up`` of E4M3 weights, 128 smaller ones, and ``last``, 64."""
_FP8_MOST = {"output": 1}
"""``Form.most`` in layers of E4M3 weights, beside whose small blocks 16-bit ones would crowd on few
multiprocessors."""

Linear = tuple[Weight, torch.Tensor]
"""weight [out, in] and bias [out]."""
Modulation = tuple[torch.Tensor, torch.Tensor]
"""What a norm is multiplied by and what is added: [width] float32 each."""


class Layer(NamedTuple):
    """query: of queries, keys and values packed where a layer attends to itself, else of queries
    alone. Two norms: one that is modulated in front of ``query``, a plain one in front of ``up``,
    whose activation is GELU in its tanh form."""

    query: Linear
    output: Linear
    up: Linear
    down: Linear

    @property
    def own(self) -> bool:
        return self.query[0].shape[0] > self.output[0].shape[1]


class Folded(NamedTuple):
    """A modulation as the kernels take it. All float32: scale [width]; of the product behind it
    bias [n], and sums [n] (``dit_product.sums_of``)."""

    scale: torch.Tensor
    bias: torch.Tensor
    sums: torch.Tensor


def form(kind: str, weight: Weight, part: int, most: int = 0) -> Form | None:
    """How a product of a layer runs (kind: of ``_SHAPES``); None where no form fits it. part, most:
    as ``Form`` has them."""
    n, k = weight.shape
    fp8 = isinstance(weight, QuantizedWeight)
    shapes = _FP8_SHAPES if fp8 else _SHAPES
    for blocks, groups, columns, registers in shapes.get(kind, ()):
        made = Form(
            n, k, blocks, groups, columns, part, kind in _RESIDUAL,
            "gelu_tanh" if kind == "up" else "", kind in _BEHIND_DOWN, registers, fp8, most,
        )  # fmt: skip
        if made.fits():
            return made
    return None


def forms(layers: Sequence[Layer], last: Linear) -> dict[str, Form] | None:
    """By kind; None where no form fits one, or layers differ in size."""
    found: dict[str, Form] = {}
    most = _FP8_MOST if isinstance(layers[0].up[0], QuantizedWeight) else {}
    pairs = [*_pairs(layers), ("last", last)]
    # What a norm's product reads depends on who left it.
    for behind, kinds in (("", ("output", "down")), ("output", ("up",)), ("down", _BEHIND_DOWN)):
        part = found[behind].own if behind else 0
        for kind, (weight, _) in pairs:
            if kind not in kinds:
                continue
            made = form(kind, weight, part, most.get(kind, 0))
            if made is None or found.setdefault(kind, made) != made:
                return None
    return found


_RESIDUAL = "output", "down"
_BEHIND_DOWN = "own", "cross", "last"


def fits(layers: Sequence[Layer], last: Linear, tokens: int, heads: int) -> bool:
    """Whether the kernels were written for these sizes, weights and this device."""
    first = layers[0].output[0]
    plain = all(
        (isinstance(w, QuantizedWeight) or w.is_contiguous()) and w.dtype == first.dtype
        for _, (w, _) in (*_pairs(layers), ("last", last))
    )
    return (
        plain
        and first.dtype == torch.bfloat16  # the residual stream leaves float16's range
        and _cuda.is_hopper(first.device)
        and head_attention.fits(first.shape[1] // heads, tokens, tokens, first.dtype, first.device)
        and forms(layers, last) is not None
    )


def _pairs(layers: Sequence[Layer]) -> list[tuple[str, Linear]]:
    return [
        pair
        for x in layers
        for pair in (
            ("own" if x.own else "cross", x.query), ("output", x.output), ("up", x.up),
            ("down", x.down),
        )
    ]  # fmt: skip


class DitLayers:
    """For ``tokens`` rows of one request. 16-bit weights stay where they are, of E4M3 ones there
    are copies in another order. One call after another; their scratch is the same.

    last: the projection behind the last norm. eps: of a layer's norms; last_eps: of the last.
    dependent: launches start while the kernel in front ends. Raises ValueError where the kernels
    cannot serve these sizes (``fits``), CudaError or OSError where they cannot be compiled.
    """

    def __init__(
        self, layers: Sequence[Layer], last: Linear, *, tokens: int, heads: int, eps: float,
        last_eps: float, dependent: bool,
    ):  # fmt: skip
        if not fits(layers, last, tokens, heads):
            raise ValueError(f"no kernels for {tokens} rows of {heads} heads of these layers")
        self.tokens, self._eps, self._last_eps, self._dependent = tokens, eps, last_eps, dependent
        found = forms(layers, last)
        assert found is not None
        made = [
            DitProduct(*pair, found[kind], dependent=dependent)
            for kind, pair in (*_pairs(layers), ("last", last))
        ]
        self._layers = [made[i : i + 4] for i in range(0, len(made) - 1, 4)]
        self._last = made[-1]
        self._own = [x.own for x in layers]
        self._sums = [sums_of(x.up[0], None) for x in layers]
        weight, hidden = layers[0].output[0], layers[0].down[0].shape[1]
        width, dtype, device = weight.shape[1], weight.dtype, weight.device
        self._d = width // heads
        # The two norms of a layer read the stream as two kernels left it.
        one, two = (Stream.empty(width, found[kind].own, dtype, device) for kind in _RESIDUAL)
        self._middle, self._end = one, two._replace(x=one.x)

        def scratch(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self._packed, self._queries = scratch(tokens, 3 * width), scratch(tokens, width)
        self._attended, self._hidden = (scratch(w // 16, 4, 32, 8) for w in (width, hidden))
        key, value = (self._packed[:, width * i : width * (i + 1)] for i in (1, 2))
        self._attend = HeadAttention(key, value, self._d, constant=False, dependent=dependent)

    def folded(self, steps: Sequence[Sequence[Modulation]]) -> list[list[Folded]]:
        """Of every step, a modulation a layer and the last norm's -> as the kernels take them."""
        products = [*(x[0] for x in self._layers), self._last]
        return [
            [
                Folded(
                    scale.float().contiguous(), through(p.weight, p.bias, shift),
                    sums_of(p.weight, scale),
                )
                for p, (scale, shift) in zip(products, step, strict=True)
            ]
            for step in steps
        ]  # fmt: skip

    def over(
        self, keys: Sequence[torch.Tensor | None], values: Sequence[torch.Tensor | None]
    ) -> list[HeadAttention | None] | None:
        """By layer: [L, width], 16 bit, of a request, None where a layer attends to itself. None
        where there are more keys than the kernel takes."""
        past: list[HeadAttention | None] = []
        for key, value in zip(keys, values, strict=True):
            if key is None or value is None:
                past.append(None)
            elif not head_attention.fits(self._d, len(key), self.tokens, key.dtype, key.device):
                return None
            else:
                past.append(
                    HeadAttention(key, value, self._d, constant=True, dependent=self._dependent)
                )
        return past

    def __call__(
        self,
        x: torch.Tensor,
        past: Sequence[HeadAttention | None],
        exists: Sequence[torch.Tensor | None],
        norms: Sequence[Folded],
    ) -> torch.Tensor:
        """x [tokens, width] float32. past: of ``over``. exists: by layer, bool [L] or None for all.
        -> [tokens, out of ``last``] in the weights' dtype.

        Keys, values and ``exists`` of a request are read by kernels that have not waited for those
        in front (``head_attention``): they must be complete when the last launch that is not a
        dependent one is made. The weights and ``norms`` are older still.
        """
        rows, eps, width = self.tokens, self._eps, self._queries.shape[1]
        middle, end = self._middle, self._end
        dit_product.begin(x, norms[0].scale, end, dependent=self._dependent)
        for i, (query, output, up, down) in enumerate(self._layers):
            norm, after = norms[i], norms[i + 1]
            made = self._packed if self._own[i] else self._queries
            query(
                end.scaled, rows=rows, statistics=end.statistics, sums=norm.sums, bias=norm.bias,
                out=made, eps=eps,
            )  # fmt: skip
            attend = past[i] or self._attend
            attend(made[:, :width], out=self._attended, exists=exists[i])
            output(self._attended, rows=rows, stream=middle)
            up(
                middle.scaled, rows=rows, statistics=middle.statistics, sums=self._sums[i],
                out=self._hidden, eps=eps,
            )  # fmt: skip
            down(self._hidden, rows=rows, stream=end, scale=after.scale)
        norm, weight = norms[-1], self._last.weight
        out = torch.empty(rows, weight.shape[0], dtype=weight.dtype, device=weight.device)
        self._last(
            end.scaled, rows=rows, statistics=end.statistics, sums=norm.sums, bias=norm.bias,
            out=out, eps=self._last_eps,
        )  # fmt: skip
        return out


def reference(
    x: torch.Tensor,
    layers: Sequence[Layer],
    last: Linear,
    keys: Sequence[torch.Tensor | None],
    values: Sequence[torch.Tensor | None],
    exists: Sequence[torch.Tensor | None],
    modulations: Sequence[Modulation],
    *,
    heads: int,
    eps: float,
    last_eps: float,
) -> torch.Tensor:
    """The twin, of the products' twin, in the dtype of x [tokens, width], which is left as it is;
    the rest as ``DitLayers`` takes it."""
    x, wide = x.clone(), x.dtype

    def split(t: torch.Tensor) -> torch.Tensor:
        return t.to(wide).unflatten(1, (heads, -1))[None]

    for layer, key, value, there, modulation in zip(
        layers, keys, values, exists, modulations, strict=False
    ):
        y = linear(x, *layer.query, eps=eps, scale=modulation[0], shift=modulation[1])
        if key is None or value is None:
            y, key, value = y.chunk(3, dim=1)
        q, k, v = (split(t) for t in (y, key, value))
        mask = None if there is None else there[None]
        y = attention.reference(q, k.transpose(1, 2), v.transpose(1, 2), exists=mask)[0]
        x.add_(linear(y, *layer.output))
        y = activate(linear(x, *layer.up, eps=eps), "gelu_tanh")
        x.add_(linear(y, *layer.down))
    scale, shift = modulations[-1]
    return linear(x, *last, eps=last_eps, scale=scale, shift=shift)
