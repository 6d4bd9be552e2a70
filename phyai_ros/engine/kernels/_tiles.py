# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the copy engine reads tiles of a matrix by, into shared memory, and writes them by."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_uint, c_uint64, c_void_p

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._cuda import TensorMap

_TYPES = {  # CUtensorMapDataType
    torch.float8_e4m3fn: 0, torch.float8_e5m2: 0, torch.float16: 6, torch.bfloat16: 9,
}  # fmt: skip
_SWIZZLES, _L2_256 = {32: 1, 64: 2, 128: 3}, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion


def lines_map(matrix: torch.Tensor, rows: int, line: int = 128) -> TensorMap:
    """Of a matrix [any, columns] whose rows are contiguous: boxes of ``rows`` times ``line`` bytes
    (64 or 128), their 16-byte pieces swizzled over as many."""
    columns = line // matrix.element_size()
    return _encoded(matrix, matrix.shape[::-1], matrix.stride()[:1], (columns, rows), line)


def evens_map(matrix: torch.Tensor, rows: int) -> TensorMap:
    """``lines_map`` of a matrix of whole sixteens of rows, whose boxes of ``rows``, sixteens too,
    have of each the even ones in front of the odd ones: four axes, columns, rows two apart, the
    two, sixteens."""
    (n, k), line = matrix.shape, matrix.stride(0)
    box = (128 // matrix.element_size(), 8, 2, rows // 16)
    return _encoded(matrix, (k, 8, 2, n // 16), (2 * line, line, 16 * line), box, 128)


def heads_map(heads: torch.Tensor, rows: int, line: int = 128) -> TensorMap:
    """Of heads [requests, any, length, columns] in any order but for columns, which are contiguous:
    boxes of ``rows`` of a head times ``line`` bytes (32, 64 or 128). Columns that a head does not
    have are zeros."""
    sizes, strides = heads.shape[::-1], heads.stride()[2::-1]
    return _encoded(heads, sizes, strides, (line // heads.element_size(), rows, 1, 1), line)


def _encoded(
    of: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], line: int
) -> TensorMap:
    """Axes from the innermost on, which is contiguous; strides, of the others, in elements."""
    axes, ones = len(sizes), (1,) * len(sizes)
    room = ctypes.create_string_buffer(192)  # the driver wants it at a multiple of 64
    made = TensorMap.from_buffer(room, -ctypes.addressof(room) % 64)
    _cuda._check(
        _cuda._driver().cuTensorMapEncodeTiled(
            byref(made), _TYPES[of.dtype], axes, c_void_p(of.data_ptr()),
            (c_uint64 * axes)(*sizes),
            (c_uint64 * (axes - 1))(*(s * of.element_size() for s in strides)),
            (c_uint * axes)(*box), (c_uint * axes)(*ones), 0, _SWIZZLES[line], _L2_256, 0,
        )
    )  # fmt: skip
    return made
