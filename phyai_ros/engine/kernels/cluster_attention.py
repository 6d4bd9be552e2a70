# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of one request's few queries over a long prefix and their own keys, in one launch
(``cuda/cluster_attention.cu``), on Hopper.

A cluster of eight blocks serves a query head: seven share the prefix, which is in shared memory
before the kernel in front has ended, the last has the chunk's own keys; their parts are joined
inside the cluster. Queries are in the order of fragments (``fragments``), and so are outputs, or in
that of bytes (``e4m3.in_bytes``).
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda, attention
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.fragments import ROWS, from_fragments, into_fragments

_RANKS, _OWN, _FEWEST, _MOST = 8, 64, 64, 160
_FILES = ("hopper.cuh", "e4m3.cuh", "softmax.cuh", "ranks.cuh", "cluster_attention.cu")
LONGEST_PREFIX = (_RANKS - 1) * _MOST


class _Given(ctypes.Structure):
    _fields_ = (
        *((n, _cuda.TensorMap) for n in ("prefix_key", "prefix_value", "own_key", "own_value")),
        *((n, c_uint64) for n in ("q", "out", "exists")),
        ("at", c_uint), ("rows", c_uint), ("scale", c_float),
    )  # fmt: skip


def fits(d: int, at: int, rows: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel was written for ``rows`` queries of d columns behind ``at`` keys."""
    return (
        d in (64, 128, 256)
        and 1 <= at <= LONGEST_PREFIX
        and 1 <= rows <= ROWS
        and dtype in (torch.float16, torch.bfloat16)
        and _cuda.is_hopper(device)
    )


def keys_a_rank(at: int) -> int:
    """Of a prefix of ``at`` keys: in sixteens, as a step of the product of the values is."""
    return max(_FEWEST, -(-at // (_RANKS - 1) // 16) * 16)


def _shared(d: int, keys: int) -> int:
    """Bytes of shared memory, as ``cluster_attention.cu`` lays it out."""
    join = _RANKS * max(1, d // 16 // _RANKS) * 2048 + _RANKS * 512
    prefix, own, weights = 2 * d * keys, 2 * d * _OWN, -(-keys // 64) * 8192
    return max(max(prefix, join + weights) + prefix, join + 2 * own + 8192) + 64


@lru_cache(maxsize=64)
def _kernel(
    d: int, keys: int, alone: bool, leaves: str, late: bool, dtype: torch.dtype, dependent: bool,
    device: int,
) -> _cuda.Kernel:  # fmt: skip
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "cluster_attention", _FILES,
        {
            "D": d, "KEYS": keys, "ALONE": int(alone), "LEAVES": int(leaves == "bytes"),
            "LATE": int(late), "BF16": int(dtype == torch.bfloat16), "PDL": int(dependent),
        },
        cluster=_RANKS, threads=128, shared=_shared(d, keys),
        products=(
            *(product(n) for n in sorted({keys, _OWN})),
            product(64, by_columns=True, a_shared=True),
        ),
    )  # fmt: skip


class ClusterAttention:
    """Of one layer's cache: key, value [at + rows or more, d], 16 bit, rows contiguous. The first
    ``at`` rows are the prefix; the chunk's own keys and values follow. Holds no copy: the tensors
    may change between calls, not their place.

    Rows of the prefix that do not exist must be finite. alone: the first query sees no own key but
    its own. leaves: "" or "bytes", as ``cluster_product.Form.leaves``; the latter of float16. late:
    the next launch may start behind the products of the keys, not before. dependent: launches start
    while the kernel in front ends; what that one may still write is the queries and the chunk's own
    rows.
    """

    def __init__(
        self, key: torch.Tensor, value: torch.Tensor, *, at: int, rows: int, alone: bool = False,
        leaves: str = "", late: bool = False, dependent: bool = True,
    ):  # fmt: skip
        d = key.shape[1]
        if not fits(d, at, rows, key.dtype, key.device) or (leaves and key.dtype != torch.float16):
            raise ValueError(f"{rows} queries of {d} {key.dtype} behind {at} keys on {key.device}")
        if len(key) < at + rows or value.shape[1] != d or len(value) < at + rows:
            raise ValueError(
                f"{at} + {rows} rows of {d} wanted, found {tuple(key.shape)}, {tuple(value.shape)}"
            )
        keys = keys_a_rank(at)
        device = key.get_device()
        self._kernel = _kernel(d, keys, alone, leaves, late, key.dtype, dependent, device)
        self._at, self._rows, self._d, self._dependent = at, rows, d, dependent
        self._tensors = key, value
        self._maps = (
            *(lines_map(t[:at], keys) for t in (key, value)),
            *(lines_map(t[at : at + rows], _OWN) for t in (key, value)),
        )

    def __call__(self, q: torch.Tensor, exists: torch.Tensor, *, out: torch.Tensor) -> None:
        """q: fragments [heads d / 16, 4, 32, 8], rotated, unscaled; rows from ``rows`` on may hold
        anything. exists: bool [at + rows], contiguous, which keys there are, unchanged since before
        the kernel in front. out: as q, or bytes; its missing rows are undefined."""
        given = _Given(
            *self._maps, q.data_ptr(), out.data_ptr(), exists.data_ptr(), self._at, self._rows,
            attention.score_scale(self._d),
        )  # fmt: skip
        heads = len(q) * 16 // self._d
        self._kernel.launch(heads * _RANKS, given, dependent=self._dependent)


def reference(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    exists: torch.Tensor,
    *,
    at: int,
    rows: int,
    alone: bool = False,
) -> torch.Tensor:
    """The twin, in the dtype of ``key``. -> fragments, missing rows zero."""
    d = key.shape[1]
    plain = from_fragments(q, rows).view(1, rows, -1, d)
    key, value = (t[None, None, : at + rows] for t in (key, value))
    y = attention.reference(plain, key, value, exists=exists[None], first_alone=alone)
    return into_fragments(y[0])
