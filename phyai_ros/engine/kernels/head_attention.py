# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of one request's few queries to few keys, a block for a head's 16 queries, in one
launch (``cuda/head_attention.cu``), on Hopper.

Keys and values that are there for the whole request are in shared memory before the kernel in front
has ended. Outputs are in the order of fragments (``fragments``), as the next product takes them.
Where nothing but queries is to be made of a residual stream, the same launch makes them.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from functools import lru_cache
from typing import NamedTuple

import torch

from phyai_ros.engine.kernels import _cuda, attention
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels.cluster_product import rotated
from phyai_ros.engine.kernels.fragments import COPY, ROWS, from_fragments, into_fragments

_BOX = 64
"""Keys that the copy engine brings at once."""
MOST_KEYS = 512
_FILES = ("hopper.cuh", "softmax.cuh", "head.cuh", "head_queries.cuh", "head_attention.cu")


class _Given(ctypes.Structure):
    _fields_ = (
        *(
            (n, _cuda.TensorMap)
            for n in ("prefix_key", "prefix_value", "own_key", "own_value", "weight")
        ),
        *((n, c_uint64) for n in ("q", "out", "exists", "norm", "cosine", "sine")),
        *((n, c_uint) for n in ("stride", "rows", "prefix", "own", "sharing")),
        ("scale", c_float), ("eps", c_float),
    )  # fmt: skip


class Queries(NamedTuple):
    """How queries are made of a stream's copy: behind an RMS norm with this scale [width], float32,
    by a weight [heads d, width] of the keys' dtype, contiguous; then rotated."""

    scale: torch.Tensor
    weight: torch.Tensor


class Turn(NamedTuple):
    """What making queries takes in a call: cos and sin, float32 [rows, d], contiguous, and the
    norm's eps."""

    cos: torch.Tensor
    sin: torch.Tensor
    eps: float


def fits(
    d: int, keys: int, rows: int, dtype: torch.dtype, device: torch.device, own: int = 0,
    width: int = 0,
) -> bool:  # fmt: skip
    """Whether the kernel was written for ``rows`` queries of d columns to ``keys`` keys, of which
    the last ``own`` come from the kernel in front. width: of the stream that queries are made of,
    where they are."""
    return (
        d in (16, 32, 48, 64)
        and keys >= 1
        and 0 <= own <= keys
        and _boxes(keys - own) + _boxes(own) <= MOST_KEYS
        and width % _BOX == 0
        and _shared(d, _boxes(keys - own) + _boxes(own), width) <= _cuda.MOST_SHARED
        and 1 <= rows <= ROWS
        and dtype in (torch.float16, torch.bfloat16)
        and _cuda.is_hopper(device)
    )


def _boxes(keys: int) -> int:
    """In whole boxes."""
    return -(-keys // _BOX) * _BOX


def _shared(d: int, keys: int, width: int) -> int:
    """Bytes of shared memory, as ``head_attention.cu`` lays it out."""
    return 128 * (2 * keys + width) + 48 + 4 * (d * 64 + 128)


@lru_cache(maxsize=64)
def _kernel(
    d: int, prefix: int, own: int, causal: bool, fragments: bool, width: int, dtype: torch.dtype,
    dependent: bool, device: int,
) -> _cuda.Kernel:  # fmt: skip
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "head_attention", _FILES,
        {
            "D": d, "PREFIX": prefix, "OWN": own, "CAUSAL": int(causal),
            "FRAGMENTS": int(fragments), "WIDTH": width, "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent),
        },
        cluster=1, threads=128, shared=_shared(d, prefix + own, width),
    )  # fmt: skip


class HeadAttention:
    """key, value: [keys, key heads d], 16 bit, columns contiguous, rows any multiple of 16 bytes
    apart. Holds no copy: the tensors may change between calls, not their place.

    constant: keys and values are not written by the kernel in front, nor by one that may still be
    at work when it starts; the last ``own`` of them may be all the same. causal: query t sees own
    keys up to the t-th. fragments: the queries' order, else rows. queries: they are made here, of a
    stream's copy in fragments. dependent: launches start while the kernel in front ends. Keys that
    do not exist must have finite values.
    """

    def __init__(
        self, key: torch.Tensor, value: torch.Tensor, d: int, *, constant: bool, own: int = 0,
        causal: bool = False, fragments: bool = False, queries: Queries | None = None,
        dependent: bool = True,
    ):  # fmt: skip
        own = own if constant else len(key)
        width = 0 if queries is None else queries.weight.shape[1]
        if not fits(d, len(key), 1, key.dtype, key.device, own, width) or key.shape[1] % d:
            raise ValueError(f"keys {tuple(key.shape)} {key.dtype} of {d} on {key.device}")
        if value.shape != key.shape or value.dtype != key.dtype:
            raise ValueError(f"keys {tuple(key.shape)}, but values {tuple(value.shape)}")
        prefix, fragments = len(key) - own, fragments or queries is not None
        self._kernel = _kernel(
            d, _boxes(prefix), _boxes(own), causal, fragments, width, key.dtype, dependent,
            key.get_device(),
        )  # fmt: skip
        self._prefix, self._own, self._fragments = prefix, own, fragments
        self._queries = queries
        self._maps = (
            *self._mapped(key[:prefix], value[:prefix]),
            *self._mapped(key[prefix:], value[prefix:]),
            *self._mapped(key[:0] if queries is None else queries.weight),
        )
        self._tensors = key, value
        self._d, self._dependent = d, dependent

    @staticmethod
    def _mapped(*tensors: torch.Tensor) -> tuple[_cuda.TensorMap, ...]:
        return tuple(lines_map(t, _BOX) if len(t) else _cuda.TensorMap() for t in tensors)

    def __call__(
        self, q: torch.Tensor, *, out: torch.Tensor, rows: int | None = None,
        exists: torch.Tensor | None = None, turn: Turn | None = None,
    ) -> None:  # fmt: skip
        """q, unscaled: [rows, heads d], rows an even number of columns apart, or ``fragments``
        of ``rows`` rows; with ``queries`` the stream times ``COPY``, in fragments, and ``turn``.
        exists: bool [keys], contiguous, as ``constant`` says of keys and values, whatever those
        are. out: fragments of heads d columns or more; its missing rows are undefined."""
        own = self._tensors[0].shape[1]
        width = len(q) * 16 if self._fragments else q.shape[1]
        places: tuple[torch.Tensor | None, ...] = (None, None, None)
        eps = 0.0
        if self._queries is not None:
            if turn is None or width != self._queries.weight.shape[1]:
                raise ValueError(f"a stream of {width} columns, turned by {turn}")
            width, eps = len(self._queries.weight), turn.eps
            places = self._queries.scale, turn.cos, turn.sin
        rows = len(q) if rows is None else rows
        if rows > ROWS or width % own:
            raise ValueError(f"queries {tuple(q.shape)} to keys of {own} columns")
        given = _Given(
            *self._maps, *map(_cuda.address, (q, out, exists, *places)),
            q.stride(0), rows, self._prefix, self._own, width // own,
            attention.score_scale(self._d), eps,
        )  # fmt: skip
        self._kernel.launch(width // self._d * -(-rows // 16), given, dependent=self._dependent)


def reference(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    d: int,
    *,
    exists: torch.Tensor | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """The twin, in the dtype of ``key``, of queries in rows. causal: as many own keys as queries.
    -> fragments, missing rows zero."""
    plain, key, value = (t[None].unflatten(2, (-1, d)) for t in (q, key, value))
    y = attention.reference(
        plain, key.transpose(1, 2), value.transpose(1, 2),
        exists=None if exists is None else exists[None], causal=causal,
    )  # fmt: skip
    return into_fragments(y[0])


def reference_queries(
    stream: torch.Tensor, rows: int, queries: Queries, turn: Turn, d: int
) -> torch.Tensor:
    """The twin of what makes queries, in the dtype of ``stream``, a copy in fragments. -> [rows,
    heads d]."""
    h, wide = from_fragments(stream, rows) / COPY, stream.dtype
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + turn.eps) * queries.scale.to(wide)
    q = (h @ queries.weight.to(wide).t()).unflatten(1, (-1, d))
    return rotated(q, turn.cos.to(wide), turn.sin.to(wide)).flatten(1)
