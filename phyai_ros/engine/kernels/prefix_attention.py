# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of many queries whose heads share one head of keys and values
(``cuda/prefix_attention.cu``), on Hopper: what a language model's prefix attends to.

A cluster of two blocks has 128 rows (token, head) and half of the keys each; the twin is
``attention.reference``.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from dataclasses import dataclass
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.attention import score_scale

_FILES = ("hopper.cuh", "warpgroups.cuh", "softmax.cuh", "prefix.cuh", "prefix_attention.cu")
_D, _ROWS, _KEYS, _PLACES, _RANKS, _THREADS = 256, 128, 64, 5, 2, 384
_MASK_WORDS = 64
_SHARED = (_ROWS + _PLACES * _KEYS) * _D * 2 + 2048 + _MASK_WORDS * 4 + 16 + 16 * _PLACES
"""Queries, tiles, statistics, masks, barriers."""
FEWEST_KEYS, MOST_KEYS = 64, 3840
"""Of a request: both blocks have some, and their masks fit."""


@dataclass(frozen=True)
class Form:
    """held: steps of 16 columns of queries that stay in registers, 8 at most; turns: 1 where the
    two warpgroups ask for products in turns."""

    held: int = 0
    turns: int = 1


class _Given(ctypes.Structure):
    _fields_ = (
        *((n, _cuda.TensorMap) for n in ("q", "key", "value")), ("out", c_uint64),
        ("exists", c_uint64), *((n, c_uint) for n in ("rows", "keys", "half", "tiles")),
        ("scale", c_float),
    )  # fmt: skip


def fits(q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the kernel was written for queries [B, T, heads, d] and keys and values
    [B, kv, L, d]: one shared head of 256 columns, requests one behind the other."""
    if q.ndim != 4 or key.shape != value.shape or q.shape[0] != key.shape[0]:
        return False
    return (
        q.shape[3] == key.shape[3] == _D
        and key.shape[1] == 1
        and FEWEST_KEYS <= key.shape[2] <= MOST_KEYS
        and q.dtype == key.dtype == value.dtype
        and q.dtype in (torch.float16, torch.bfloat16)
        and all(t.is_contiguous() for t in (q, key, value))
        and _cuda.is_hopper(q.device)
    )


@lru_cache(maxsize=16)
def _kernel(form: Form, dtype: torch.dtype, dependent: bool, device: int) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "prefix_attention", _FILES,
        {
            "HELD": form.held, "TURNS": form.turns, "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent),
        },
        cluster=_RANKS, threads=_THREADS, shared=_SHARED,
        products=(
            product(_KEYS), product(_KEYS, a_shared=True), product(_D, by_columns=True),
        ),
    )  # fmt: skip


def half(keys: int) -> int:
    """Keys of the first block: a multiple of 16, as a step of the product of the values is."""
    return -(-keys // 32) * 16


def fused(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    exists: torch.Tensor | None = None,
    form: Form,
    dependent: bool = False,
) -> torch.Tensor:
    """``attention.reference`` of what ``fits``. Keys that do not exist must be finite."""
    if not fits(q, key, value):
        raise ValueError(
            f"queries {tuple(q.shape)}, keys {tuple(key.shape)} {key.dtype} on {key.device}"
        )
    batch, length, heads, d = q.shape
    keys, rows = key.shape[2], length * heads
    tiles = -(-rows // _ROWS)
    out = torch.empty(batch, length, heads * d, dtype=q.dtype, device=q.device)
    given = _Given(
        lines_map(q.view(-1, d), _ROWS),
        *(lines_map(t.view(-1, d), _KEYS) for t in (key, value)),
        out.data_ptr(), _cuda.address(exists), rows, keys, half(keys), tiles,
        score_scale(d),
    )  # fmt: skip
    kernel = _kernel(form, q.dtype, dependent, q.get_device())
    kernel.launch(batch * tiles * _RANKS, given, dependent=dependent)
    return out
