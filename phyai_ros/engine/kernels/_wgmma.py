# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The text of a warpgroup's products, whose instruction names every register of its sum."""

from __future__ import annotations


def product(
    columns: int, *, by_columns: bool = False, a_shared: bool = False, fp8: bool = False
) -> str:
    """CUDA C++ of ``product(sum, a, b)``: sum[64 x columns] += a[64 x 16] b, a in registers, b a
    descriptor of ``hopper.cuh``; ``product_by_columns`` where it sums over the rows of b. a_shared:
    a is a descriptor too, ``by_rows``. The types of sum and a tell the overloads apart. fp8: of
    E4M3, a[64 x 32], instead of 16 bits. columns: a multiple of 8, at most 256."""
    if fp8 and (by_columns or a_shared):
        raise ValueError("of E4M3 there are products of rows with an operand in registers alone")
    if columns % 8 or not 8 <= columns <= 256:
        raise ValueError(f"a warpgroup's product has 8 to 256 columns in eights, not {columns}")
    count, name = columns // 2, "product_by_columns" if by_columns else "product"
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))
    if a_shared:
        kind_of_a, given, orders = "u64", '"l"(a)', f"0, {int(by_columns)}"
        a, b = f"%{count}", f"%{count + 1}"
    else:
        kind_of_a, given, orders = "const u32*", _four('"r"(a[{}])', 0), f"{int(by_columns)}"
        a, b = f"{{{_four('%{}', count)}}}", f"%{count + 4}"

    def text(kind: str) -> str:
        return (
            f'"wgmma.mma_async.sync.aligned.m64n{columns}k{32 if fp8 else 16}.f32.{kind}.{kind} '
            f'{{{sums}}}, {a}, {b}, 1, 1, 1{"" if fp8 else ", " + orders};"'
        )

    halves = f"#if BF16\n      {text('bf16')}\n#else\n      {text('f16')}\n#endif"
    return f"""
DEV void {name}(float (&s)[{count}], {kind_of_a} a, u64 b) {{
  asm volatile(
{"      " + text("e4m3") if fp8 else halves}
      : {outputs}
      : {given}, "l"(b));
}}
"""


def _four(text: str, first: int) -> str:
    return ", ".join(text.format(first + i) for i in range(4))


def product_shared(columns: int) -> str:
    """CUDA C++ of ``product_shared(sum, a, b, more)``: as ``product``, with a descriptor for a as
    well; where ``more`` is 0, what the sum was does not count."""
    if columns % 8 or not 8 <= columns <= 256:
        raise ValueError(f"a warpgroup's product has 8 to 256 columns in eights, not {columns}")
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(count))

    def text(kind: str) -> str:
        return (
            f'"{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; '
            f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {{{sums}}}, "
            f'%{count}, %{count + 1}, p, 1, 1, 0, 0; }}"'
        )

    return f"""
DEV void product_shared(float (&s)[{count}], u64 a, u64 b, u32 more) {{
  asm volatile(
#if BF16
      {text("bf16")}
#else
      {text("f16")}
#endif
      : {outputs}
      : "l"(a), "l"(b), "r"(more));
}}
"""
