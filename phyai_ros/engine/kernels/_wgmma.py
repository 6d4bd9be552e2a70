# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The text of a warpgroup's products, whose instruction names every register of its sum."""

from __future__ import annotations


def product(
    columns: int,
    *,
    by_columns: bool = False,
    a_shared: bool = False,
    fp8: bool = False,
    e5m2: bool = False,
) -> str:
    """CUDA C++ of ``product(sum, a, b)``: sum[64 x columns] += a[64 x 16] b, a in registers, b a
    descriptor of ``hopper.cuh``; ``product_by_columns`` where it sums over the rows of b. a_shared:
    a is a descriptor too, ``by_rows``. Beside each there is ``..._anew``, which sets the sum,
    whatever it was. The types of sum and a tell the overloads apart. fp8: of E4M3, a[64 x 32],
    instead of 16 bits; e5m2: a is that. columns: a multiple of 8, at most 256."""
    if fp8 and by_columns:
        raise ValueError("of E4M3 there are products of rows alone")
    if columns % 8 or not 8 <= columns <= 256:
        raise ValueError(f"a warpgroup's product has 8 to 256 columns in eights, not {columns}")
    of_fp8 = "e5m2.e4m3" if e5m2 else "e4m3.e4m3"
    count, name = columns // 2, "product_by_columns" if by_columns else "product"
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))
    if a_shared:
        kind_of_a, given, orders = "u64", '"l"(a)', f", 0, {int(by_columns)}"
        a, b = f"%{count}", f"%{count + 1}"
    else:
        kind_of_a, given, orders = "const u32*", _four('"r"(a[{}])', 0), f", {int(by_columns)}"
        a, b = f"{{{_four('%{}', count)}}}", f"%{count + 4}"

    def text(kind: str, adds: int) -> str:
        return (
            f'"wgmma.mma_async.sync.aligned.m64n{columns}k{32 if fp8 else 16}.f32.{kind} '
            f'{{{sums}}}, {a}, {b}, {adds}, 1, 1{"" if fp8 else orders};"'
        )

    def function(name: str, adds: int) -> str:
        brain, half = text("bf16.bf16", adds), text("f16.f16", adds)
        both = f"#if BF16\n      {brain}\n#else\n      {half}\n#endif"
        return f"""
DEV void {name}(float (&s)[{count}], {kind_of_a} a, u64 b) {{
  asm volatile(
{"      " + text(of_fp8, adds) if fp8 else both}
      : {outputs}
      : {given}, "l"(b));
}}
"""

    return function(name, 1) + function(f"{name}_anew", 0)


def _four(text: str, first: int) -> str:
    return ", ".join(text.format(first + i) for i in range(4))
