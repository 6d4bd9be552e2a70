# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every layer of pi0's and pi0.5's action expert in one launch (``cuda/gemma_stack.cu``).

Other widths and batches keep the kernels a layer is otherwise made of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int, c_uint64
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import _cuda, add_norm, attention, gated_linear, rope_cache

_RANKS, _THREADS = 8, 384
_FEWEST, _MOST = 13, 16
"""Clusters of 8 blocks, one block a multiprocessor: how many there are depends on which
multiprocessors of a chip are switched off."""
FILES = (
    "hopper.cuh", "gemma_stream.cuh", "gemma_products.cuh", "gemma_attend.cuh", "gemma_stack.cu",
)  # fmt: skip
WIDTH, HEADS, HEAD, MLP = 1024, 8, 256, 4096
_QKV = (HEADS + 2) * HEAD
LONGEST_PREFIX = 8 * 128
MOST_TOKENS = 54
ONE_LAUNCH = "one launch"
"""The choice in a table of operators."""


class _Given(ctypes.Structure):
    _fields_ = (
        *((n, c_uint64) for n in (
            "weights", "vectors", "x", "key", "value", "layer_stride", "exists", "cosine", "sine",
            "y", "q", "own", "attended", "z", "squares", "stamps",
        )),
        ("prefix", c_int), ("eps", c_float),
    )  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """One layer's weights [out, in]: packed queries, keys and values; output; gate and up; down."""

    qkv: torch.Tensor
    output: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class Norms:
    """Of one layer, float32: what the norm in front of attention multiplies and adds, the gate
    behind it, and the same of the MLP; [width], None for nothing."""

    scale1: torch.Tensor
    shift1: torch.Tensor | None
    gate1: torch.Tensor | None
    scale2: torch.Tensor
    shift2: torch.Tensor | None
    gate2: torch.Tensor | None


def reference(
    x: torch.Tensor,
    layers: Sequence[Layer],
    norms: Sequence[Norms],
    key: torch.Tensor,
    value: torch.Tensor,
    exists: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    at: int,
    eps: float,
) -> torch.Tensor:
    """The twin, of the twins of a layer's kernels; arguments as ``GemmaStack`` takes them. Runs in
    the dtype of key and value. -> x after the last layer, before the final norm."""
    x, dtype = x.clone(), key.dtype
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)

    def norm(scale: torch.Tensor, shift: torch.Tensor | None) -> torch.Tensor:
        return add_norm.reference(
            x, None, kind="rms", eps=eps, dtype=dtype, scale=scale, shift=shift
        )

    for i, (layer, n) in enumerate(zip(layers, norms, strict=True)):
        y = F.linear(norm(n.scale1, n.shift1), layer.qkv.to(dtype))
        q = rope_cache.reference(y, cos, sin, key[i], value[i], heads=HEADS, at=at)
        assert q is not None
        y = attention.reference(q, key[i], value[i], exists=exists).flatten(0, 1)
        y = F.linear(y, layer.output.to(dtype)).to(x.dtype)
        x += y if n.gate1 is None else y * n.gate1.to(x.dtype)
        h = norm(n.scale2, n.shift2)
        y = gated_linear.reference(h, layer.gate_up.to(dtype), "gelu_tanh")
        y = F.linear(y, layer.down.to(dtype)).to(x.dtype)
        x += y if n.gate2 is None else y * n.gate2.to(x.dtype)
    return x


def fits(layers: Sequence[Layer], tokens: int) -> bool:
    """Whether the kernel was written for these sizes and this device (Hopper)."""
    shapes = {(t.qkv.shape, t.output.shape, t.gate_up.shape, t.down.shape) for t in layers}
    wanted = ((_QKV, WIDTH), (WIDTH, HEADS * HEAD), (2 * MLP, WIDTH), (WIDTH, MLP))
    tensors = [t for x in layers for t in (x.qkv, x.output, x.gate_up, x.down)]
    first = tensors[0]
    return (
        shapes == {tuple(torch.Size(s) for s in wanted)}
        and 32 <= tokens <= MOST_TOKENS
        and len(layers) % 2 == 0
        and first.device.type == "cuda"
        and first.dtype in (torch.float16, torch.bfloat16)
        and all(t.is_contiguous() and t.dtype == first.dtype for t in tensors)
        and torch.cuda.get_device_capability(first.device)[0] == 9
    )


def vectors(layers: Sequence[Layer], norms: Sequence[Norms]) -> torch.Tensor:
    """-> float32 [layers, ...] as the kernel reads them: a shift becomes the product's bias."""
    rows = []
    for layer, n in zip(layers, norms, strict=True):
        one = torch.ones_like(n.scale1)
        rows.append(
            torch.cat([
                n.scale1, _through(layer.qkv, n.shift1), one if n.gate1 is None else n.gate1,
                n.scale2, _through(layer.gate_up, n.shift2), one if n.gate2 is None else n.gate2,
            ])
        )  # fmt: skip
    return torch.stack(rows).contiguous()


def _through(weight: torch.Tensor, shift: torch.Tensor | None) -> torch.Tensor:
    if shift is None:
        return torch.zeros(len(weight), device=weight.device)
    return weight.float() @ shift


def _slots(clusters: int) -> int:
    return 14 if clusters > _FEWEST else 13


def _shared(clusters: int) -> int:
    """Bytes of shared memory; the sizes are those of ``cuda/gemma_stream.cuh``."""
    slots, pairs = _slots(clusters), 2 * -(-_QKV // 32 // clusters)
    return slots * 8704 + 58240 + _RANKS * 2 * pairs * 58 * 4 + 768 + (2 * slots + 2) * 8


def definitions(tokens: int, depth: int, dtype: torch.dtype, clusters: int) -> dict[str, int]:
    return {
        "TOKENS": tokens, "DEPTH": depth, "BF16": int(dtype == torch.bfloat16),
        "CLUSTERS": clusters, "SLOTS": _slots(clusters),
    }  # fmt: skip


def clusters_here() -> int:
    """How many clusters of blocks that each fill a multiprocessor the current device holds."""
    probe = _cuda.Kernel(
        "cluster_probe", ("cluster_probe.cu",), {"RANKS": _RANKS}, cluster=_RANKS,
        threads=_THREADS, shared=_shared(_MOST),
    )  # fmt: skip
    return min(_MOST, probe.clusters())


class GemmaStack:
    """Scratch and the compiled kernel for one expert: ``tokens`` rows of one request."""

    def __init__(self, layers: Sequence[Layer], tokens: int, **defines: int):
        weight = layers[0].qkv
        device, dtype = weight.device, weight.dtype
        self.tokens, self.depth, self._layers = tokens, len(layers), layers
        pointers = [[t.data_ptr() for t in (x.qkv, x.output, x.gate_up, x.down)] for x in layers]
        self._weights = torch.tensor(pointers, dtype=torch.int64, device=device)
        sizes = (2 * WIDTH, HEADS * HEAD, 2 * HEAD, HEADS * HEAD, 2 * MLP, 4 * _MOST * _RANKS)
        self._scratch = [
            torch.full((tokens, width), -1, dtype=torch.int16, device=device) for width in sizes
        ]
        clusters = clusters_here()
        if clusters < _FEWEST:
            raise _cuda.CudaError(f"{clusters} clusters of {_RANKS} blocks fit, not {_FEWEST}")
        if (clusters - 1) * -(-tokens * HEADS // clusters) >= tokens * HEADS:
            raise _cuda.CudaError(f"{tokens} tokens leave a cluster without queries")
        self.blocks = clusters * _RANKS
        self._kernel = _cuda.Kernel(
            "gemma_stack", FILES, definitions(tokens, self.depth, dtype, clusters) | defines,
            cluster=_RANKS, threads=_THREADS, shared=_shared(clusters),
        )  # fmt: skip
        self.stamps: torch.Tensor | None = None

    def takes(self, batch: int, tokens: int, at: int) -> bool:
        return batch == 1 and tokens == self.tokens and 0 < at <= LONGEST_PREFIX

    def __call__(
        self,
        x: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        exists: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        vectors: torch.Tensor,
        *,
        at: int,
        eps: float,
        dependent: bool = False,
    ) -> torch.Tensor:
        """x [tokens, width] float32, changed in place and returned. key, value [layers, 1, 1, L,
        head], of which the first ``at`` rows are read: the chunk's own do not leave the kernel.
        exists bool [1, L]. cos, sin float32 [1, tokens, head]."""
        given = _Given(
            self._weights.data_ptr(), vectors.data_ptr(), x.data_ptr(), key.data_ptr(),
            value.data_ptr(), key.stride(0), exists.data_ptr(), cos.data_ptr(), sin.data_ptr(),
            *(t.data_ptr() for t in self._scratch),
            0 if self.stamps is None else self.stamps.data_ptr(), at, eps,
        )  # fmt: skip
        self._kernel.launch(self.blocks, given, dependent=dependent)
        return x
