# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The text of a warpgroup's products, whose instruction names every register of its sum."""

from __future__ import annotations


def product(columns: int, *, by_columns: bool = False) -> str:
    """CUDA C++ of ``product(sum, a, b)``: sum[64 x columns] += a[64 x 16] b, a in registers, b a
    descriptor of ``hopper.cuh``; ``product_by_columns`` where it sums over the rows of b. The sum's
    length tells the overloads apart. columns: a multiple of 8, at most 256."""
    if columns % 8 or not 8 <= columns <= 256:
        raise ValueError(f"a warpgroup's product has 8 to 256 columns in eights, not {columns}")
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))
    operands = ", ".join(f"%{count + i}" for i in range(4))
    name = "product_by_columns" if by_columns else "product"

    def text(kind: str) -> str:
        return (
            f'"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {{{sums}}}, '
            f'{{{operands}}}, %{count + 4}, 1, 1, 1, {int(by_columns)};"'
        )

    return f"""
DEV void {name}(float (&s)[{count}], const u32* a, u64 b) {{
  asm volatile(
#if BF16
      {text("bf16")}
#else
      {text("f16")}
#endif
      : {outputs}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}}
"""
