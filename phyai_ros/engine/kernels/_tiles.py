# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a warpgroup multiplies when both operands are tiles in shared memory: the instructions, and
what the copy engine reads tiles by."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_uint, c_uint64, c_void_p

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._cuda import TensorMap

_TYPES = {torch.float8_e4m3fn: 0, torch.float16: 6, torch.bfloat16: 9}  # CUtensorMapDataType
_SWIZZLES, _L2_256 = {64: 2, 128: 3}, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion


def product(columns: int, *, fp8: bool = False) -> str:
    """CUDA C++ of ``product(sum, a, b)``: sum[64 x columns] += a b, a [64 x 16] and b descriptors
    that ``by_rows`` of ``hopper.cuh`` makes, of 16 bits; fp8: a [64 x 32] of E4M3 numbers, and
    ``product_anew``, which sets the sum, whatever it was. columns: a multiple of 8, at most 256."""
    if columns % 8 or not 8 <= columns <= 256:
        raise ValueError(f"a warpgroup's product has 8 to 256 columns in eights, not {columns}")
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))

    def text(kind: str, depth: int, rest: str) -> str:
        return (
            f'"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{kind}.{kind} {{{sums}}}, '
            f'%{count}, %{count + 1}, {rest};"'
        )

    def function(name: str, instruction: str) -> str:
        return f"""
DEV void {name}(float (&s)[{count}], u64 a, u64 b) {{
  asm volatile(
{instruction}
      : {outputs}
      : "l"(a), "l"(b));
}}
"""

    if fp8:
        names = ("product", "1, 1, 1"), ("product_anew", "0, 1, 1")
        return "".join(function(name, text("e4m3", 32, rest)) for name, rest in names)
    brain, half = (text(kind, 16, "1, 1, 1, 0, 0") for kind in ("bf16", "f16"))
    return function("product", f"#if BF16\n{brain}\n#else\n{half}\n#endif")


def lines_map(matrix: torch.Tensor, rows: int, line: int = 128) -> TensorMap:
    """Of a matrix [any, columns] whose rows are contiguous: boxes of ``rows`` times ``line`` bytes
    (64 or 128), their 16-byte pieces swizzled over as many."""
    columns = line // matrix.element_size()
    return _encoded(matrix, matrix.shape[::-1], matrix.stride()[:1], (columns, rows), line)


def pairs_map(matrix: torch.Tensor, groups: int) -> TensorMap:
    """Of a contiguous matrix [2 n, columns], n in eights: boxes of 128 bytes of ``groups`` times
    eight rows and the eight that are n further."""
    rows, columns = matrix.shape
    return _encoded(
        matrix, (columns, 8, 2, rows // 16), (columns, rows // 2 * columns, 8 * columns),
        (128 // matrix.element_size(), 8, 2, groups), 128,
    )  # fmt: skip


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
