# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How the products of a Gemma expert's layer run in clusters (``gemma_expert``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from phyai_ros.engine.kernels import cluster_attention
from phyai_ros.engine.kernels.cluster_product import Form, Weight
from phyai_ros.engine.kernels.fragments import ROWS
from phyai_ros.engine.quantize import QuantizedWeight

_DEEPEST = {"rms": 256, "": 512}
"""Of a warpgroup's share of the depth, whose operands are in registers; by the norm in front."""
_SHAPES = {
    "rope": ((4, 1, 32, 168), (2, 1, 32), (1, 1, 32), (1, 1, 16)),
    "residual": ((4, 1, 16), (8, 1, 32), (4, 2, 32), (2, 1, 16), (1, 1, 16)),
    "gated": ((2, 2, 64, 160), (4, 1, 64), (2, 1, 64), (1, 1, 64), (1, 1, 32)),
}
"""Blocks of a cluster, warpgroups of a block, half the columns, registers where few are enough to
stand beside the launch in front and the one behind: the first that fits is taken."""
_FP8_SHAPES = {
    "rope": ((4, 1, 32, 128), (1, 1, 32)),
    "residual": ((4, 1, 16, 128), (8, 1, 32, 128), (1, 1, 16)),
    "gated": ((1, 4, 32, 128), (1, 1, 32)),
}
"""The same of E4M3 weights."""
_LATE = frozenset({"qkv"})
_FP8_LATE = frozenset({"attention"})
"""Of a layer's weights and of "attention", whose launches are ``Form.late``; of 16 bits, and of
E4M3."""
_FP8_MOST = {"qkv": 2, "down": 2}
"""``Form.most`` of E4M3 weights, whose blocks are so small that all would crowd on few
multiprocessors."""


def late(fp8: bool) -> frozenset[str]:
    """The launches of a layer behind whose products, not before, the next one may start."""
    return _FP8_LATE if fp8 else _LATE


@dataclass(frozen=True)
class Layer:
    """One layer's weights [out, in]: packed queries, keys and values; output; gate and up; down."""

    qkv: Weight
    output: Weight
    gate_up: Weight
    down: Weight


def form(weight: Weight, epilogue: str, *, d: int = 256, heads: int = 8) -> Form | None:
    """How a product of a layer runs; None where no form fits it."""
    n, k = weight.shape
    norm = "" if epilogue == "residual" else "rms"
    activation = "gelu_tanh" if epilogue == "gated" else ""
    fp8 = isinstance(weight, QuantizedWeight)
    shapes = _FP8_SHAPES if fp8 else _SHAPES
    for blocks, groups, half, *registers in shapes[epilogue]:
        made = Form(
            n, k, blocks, groups, half, epilogue, norm, activation, d=d, heads=heads, fp8=fp8,
            registers=registers[0] if registers else 224,
            takes="bytes" if fp8 else "",
            leaves="bytes" if fp8 and epilogue != "rope" else "",
        )  # fmt: skip
        if made.fits() and made.depth <= _DEEPEST[norm]:
            return made
    return None


def forms(layer: Layer, heads: int) -> tuple[Form, Form, Form, Form] | None:
    """Of its weights, in order; None where the kernels cannot serve it: other sizes, more than one
    head of keys, another precision or device."""
    weights = (layer.qkv, layer.output, layer.gate_up, layer.down)
    first, fp8 = weights[0], isinstance(weights[0], QuantizedWeight)
    if not all(
        isinstance(w, QuantizedWeight) == fp8
        and w.dtype == first.dtype
        and (fp8 or w.is_contiguous())
        for w in weights
    ):
        return None
    if fp8 and first.dtype != torch.float16:
        return None
    d = layer.output.shape[1] // heads
    if layer.qkv.shape[0] != (heads + 2) * d or not cluster_attention.fits(
        d, 1, ROWS, first.dtype, first.device
    ):
        return None
    found = {
        "qkv": form(layer.qkv, "rope", d=d, heads=heads),
        "output": form(layer.output, "residual"),
        "gate_up": form(layer.gate_up, "gated"),
        "down": form(layer.down, "residual"),
    }
    most = _FP8_MOST if fp8 else {}
    made = [
        f and replace(f, late=name in late(fp8), most=most.get(name, 0))
        for name, f in found.items()
    ]
    return None if None in made else tuple(made)  # type: ignore[return-value]
