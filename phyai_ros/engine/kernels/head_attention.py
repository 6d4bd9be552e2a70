# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of one request's few queries to few keys, a block a head, in one launch
(``cuda/head_attention.cu``), on Hopper.

Keys and values that are there for the whole request are in shared memory before the kernel in front
has ended. Outputs are in the order of fragments (``fragments``), as the next product takes them.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda, attention
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.fragments import ROWS, into_fragments

MOST_KEYS = 256
_FILES = ("hopper.cuh", "head_attention.cu")


class _Given(ctypes.Structure):
    _fields_ = (
        ("keys", _cuda.TensorMap), ("values", _cuda.TensorMap),
        ("q", c_uint64), ("out", c_uint64), ("exists", c_uint64),
        ("stride", c_uint), ("rows", c_uint), ("count", c_uint), ("sharing", c_uint),
        ("scale", c_float),
    )  # fmt: skip


def fits(d: int, keys: int, rows: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel was written for ``rows`` queries of d columns to ``keys`` keys."""
    return (
        d in (16, 32, 48, 64)
        and 1 <= keys <= MOST_KEYS
        and 1 <= rows <= ROWS
        and dtype in (torch.float16, torch.bfloat16)
        and device.type == "cuda"
        and torch.cuda.get_device_capability(device)[0] == 9
    )


@lru_cache(maxsize=64)
def _kernel(
    d: int, keys: int, early: bool, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "head_attention", _FILES,
        {
            "D": d, "KEYS": keys, "EARLY": int(early), "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent),
        },
        cluster=1, threads=128, shared=2 * keys * 128 + 16,
        products=(product(keys), product(64, by_columns=True)),
    )  # fmt: skip


class HeadAttention:
    """key, value: [keys, key heads d], 16 bit, columns contiguous, rows any multiple of 16 bytes
    apart. Holds no copy: the tensors may change between calls, not their place.

    constant: keys and values are not written by the kernel in front, nor by one that may still be
    at work when it starts. dependent: launches start while the kernel in front ends. Keys that do
    not exist must have finite values.
    """

    def __init__(
        self, key: torch.Tensor, value: torch.Tensor, d: int, *, constant: bool,
        dependent: bool = True,
    ):  # fmt: skip
        if not fits(d, len(key), 1, key.dtype, key.device) or key.shape[1] % d:
            raise ValueError(f"keys {tuple(key.shape)} {key.dtype} of {d} on {key.device}")
        if value.shape != key.shape or value.dtype != key.dtype:
            raise ValueError(f"keys {tuple(key.shape)}, but values {tuple(value.shape)}")
        box = -(-len(key) // 16) * 16
        self._kernel = _kernel(d, box, constant, key.dtype, dependent, key.get_device())
        self._maps = tuple(_cuda.tensor_map(t, box) for t in (key, value))
        self._tensors = key, value
        self._d, self._dependent = d, dependent

    def __call__(
        self, q: torch.Tensor, *, out: torch.Tensor, exists: torch.Tensor | None = None
    ) -> None:
        """q: [rows, heads d], rows an even number of columns apart, unscaled. exists: bool [keys],
        contiguous, as ``constant`` says of keys and values, whatever those are. out: fragments
        [heads d / 16, 4, 32, 8]; its missing rows are undefined."""
        (rows, width), (count, own) = q.shape, self._tensors[0].shape
        if rows > ROWS or width % own:
            raise ValueError(f"queries {tuple(q.shape)} to keys of {own} columns")
        given = _Given(
            *self._maps, q.data_ptr(), out.data_ptr(), 0 if exists is None else exists.data_ptr(),
            q.stride(0), rows, count, width // own, self._d**-0.5 * 1.4426950408889634,
        )  # fmt: skip
        self._kernel.launch(width // self._d, given, dependent=self._dependent)


def reference(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    d: int,
    *,
    exists: torch.Tensor | None = None,
) -> torch.Tensor:
    """The twin, in the dtype of ``key``. -> fragments, missing rows zero."""
    plain, key, value = (t[None].unflatten(2, (-1, d)) for t in (q, key, value))
    y = attention.reference(
        plain, key.transpose(1, 2), value.transpose(1, 2),
        exists=None if exists is None else exists[None],
    )  # fmt: skip
    return into_fragments(y[0])
