# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image's patches to each other where all of a head's keys and values are in shared
memory at once (``cuda/tower_attention.cu``), on Hopper: image towers of 256 patches."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from dataclasses import dataclass
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import heads_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.attention import reference, score_scale

__all__ = ["Form", "fits", "forms", "fused", "reference"]
_FILES = ("hopper.cuh", "warpgroups.cuh", "softmax.cuh", "tower_attention.cu")
_ROWS, _STEP = 64, 128
"""Queries of a warpgroup, and its keys at a time."""
_SHARES, _CLUSTER = 2, 2
"""Warpgroups that have the same queries; blocks that bring a head's keys for each other."""
_LEAST, _MOST = 48, 80
"""Columns of a head."""


@dataclass(frozen=True)
class Form:
    """groups: of 64 queries, of a block."""

    groups: int = 2


class _Given(ctypes.Structure):
    _fields_ = (
        *(
            (n, _cuda.TensorMap)
            for n in ("queries", "query_ends", "keys", "key_ends", "values")
        ),
        ("out", c_uint64), ("heads", c_uint), ("scale", c_float),
    )  # fmt: skip


def fits(q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the kernel was written for these: q [B, T, heads, d], key and value [B, heads, T, d]
    in any order but for columns."""
    if q.ndim != 4 or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    d = q.shape[3]
    sides = (q.transpose(1, 2), key, value)
    return (
        d % 8 == 0
        and _LEAST <= d <= _MOST
        and all(t.dtype == q.dtype and t.shape == sides[0].shape for t in sides)
        and all(t.stride(3) == 1 and not any(s % 8 for s in t.stride()[:3]) for t in sides)
        and all(t.data_ptr() % 16 == 0 for t in sides)
        and bool(forms(q.shape[1], d))
        and _cuda.is_hopper(q.device)
    )


def forms(length: int, d: int) -> list[Form]:
    """Those that ``length`` keys, and as many queries, can have. Of more than 256 keys a warpgroup
    has several steps, for which four have too few registers."""
    return [
        f
        for f in (Form(2), Form(1))
        if length % (_ROWS * f.groups * _CLUSTER) == 0
        and length % (_STEP * _SHARES) == 0
        and (f.groups == 1 or length == _STEP * _SHARES)
        and shared(f, length, d) <= _cuda.MOST_SHARED
    ]


def shared(form: Form, length: int, d: int) -> int:
    """Bytes of shared memory, as ``tower_attention.cu`` lays it out."""
    wide = d > 64
    rows, values = 128 + wide * 32, 128 + wide * 128
    out, given = _ROWS // _SHARES * (d * 2 | 16), (d // 8 + 1) * 1024
    barriers = 8 * (form.groups + 2 * (length // _STEP))
    held = (form.groups * _ROWS + length) * rows + length * values
    return held + form.groups * _SHARES * (out + given) + barriers


@lru_cache(maxsize=16)
def _kernel(
    form: Form, length: int, d: int, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "tower_attention", _FILES,
        {
            "D": d, "KEYS": length, "GROUPS": form.groups, "PDL": int(dependent),
            "BF16": int(dtype == torch.bfloat16),
        },
        cluster=_CLUSTER, threads=128 * form.groups * _SHARES,
        shared=shared(form, length, d),
        products=(product(_STEP, a_shared=True), product(d, by_columns=True)),
    )  # fmt: skip


def fused(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    form: Form,
    dependent: bool = False,
) -> torch.Tensor:
    """``attention.reference`` of what ``fits``, without a mask."""
    if not fits(q, key, value):
        raise ValueError(f"queries {tuple(q.shape)} {q.dtype} to keys {tuple(key.shape)}")
    batch, length, heads, d = q.shape
    out = torch.empty(batch, length, heads * d, dtype=q.dtype, device=q.device)
    ends = 32 if d > 64 else 128  # not read where there are none
    queries = q.transpose(1, 2)
    given = _Given(
        heads_map(queries, _ROWS), heads_map(queries, _ROWS, ends),
        heads_map(key, _STEP), heads_map(key, _STEP, ends), heads_map(value, _STEP),
        out.data_ptr(), heads, score_scale(d),
    )  # fmt: skip
    blocks = batch * heads * length // (_ROWS * form.groups)
    kernel = _kernel(form, length, d, q.dtype, dependent, q.get_device())
    kernel.launch(blocks, given, dependent=dependent)
    return out
