# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image tower's many queries to as many keys, heads of 64, in one launch
(``cuda/many_attention.cu``), on Hopper."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.attention import reference, score_scale

__all__ = ["fits", "fused", "reference"]
_D, _TILE = 64, 64
_GROUPS = 5
"""Tiles of a block at most: as many warpgroups of 96 registers have room on a multiprocessor."""
_STAGES = 5
_FILES = ("hopper.cuh", "softmax.cuh", "many_attention.cu")


class _Given(ctypes.Structure):
    _fields_ = (
        *((n, _cuda.TensorMap) for n in ("queries", "keys", "values")),
        ("out", c_uint64), ("tiles", c_uint), ("heads", c_uint), ("scale", c_float),
    )  # fmt: skip


def fits(q: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the kernel was written for these: q [B, T, heads, 64], key and value [B, heads, T,
    64], each in rows of all heads, as a packed product leaves them; T a multiple of 64."""
    if q.ndim != 4 or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    length, d = q.shape[1], q.shape[3]
    sides = [t.transpose(1, 2) for t in (key, value)]
    return (
        d == _D
        and length % _TILE == 0
        and length >= 4 * _TILE
        and all(t.dtype == q.dtype and t.shape == q.shape for t in sides)
        and all(_is_rows(t) for t in (q, *sides))
        and _cuda.is_hopper(q.device)
    )


def _is_rows(t: torch.Tensor) -> bool:
    row = t.stride(1)
    return t.stride() == (t.shape[1] * row, row, _D, 1) and row % 8 == 0


@lru_cache(maxsize=16)
def _kernel(
    steps: int, groups: int, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "many_attention", _FILES,
        {
            "STEPS": steps, "GROUPS": groups, "STAGES": _STAGES,
            "BF16": int(dtype == torch.bfloat16), "PDL": int(dependent),
        },
        cluster=1, threads=128 * groups, shared=shared(groups),
        products=(product(64, a_shared=True), product(64, by_columns=True)),
    )  # fmt: skip


def shared(groups: int) -> int:
    """Bytes of shared memory, as ``many_attention.cu`` lays it out."""
    return (4 * _STAGES + groups) * _TILE * 128 + 8 * (groups + 4 * _STAGES)


def arranged(tiles: int, processors: int) -> tuple[int, int]:
    """Blocks, and tiles of a block at most, for ``tiles`` of 64 queries: as many blocks as there
    are multiprocessors where those hold all tiles at once."""
    blocks = max(min(tiles, processors), -(-tiles // _GROUPS))
    return blocks, -(-tiles // blocks)


def fused(
    q: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, dependent: bool = False
) -> torch.Tensor:
    """``attention.reference`` of what ``fits``, without a mask."""
    if not fits(q, key, value):
        raise ValueError(f"queries {tuple(q.shape)} {q.dtype} to keys {tuple(key.shape)}")
    batch, length, heads, _ = q.shape
    out = torch.empty(batch, length, heads * _D, dtype=q.dtype, device=q.device)
    tiles = batch * heads * length // _TILE
    blocks, groups = arranged(
        tiles, torch.cuda.get_device_properties(q.device).multi_processor_count
    )
    maps = [
        lines_map(t.as_strided((batch * length, heads * _D), (t.stride(1), 1)), _TILE)
        for t in (q, key.transpose(1, 2), value.transpose(1, 2))
    ]
    given = _Given(*maps, out.data_ptr(), tiles, heads, score_scale(_D))
    kernel = _kernel(length // _TILE, groups, q.dtype, dependent, q.get_device())
    kernel.launch(blocks, given, dependent=dependent)
    return out
