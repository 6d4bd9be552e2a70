# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A packed query-key-value product -> rotated queries, and keys and values in their cache.

Sums the product's parts, normalises queries and keys where the model does (Qwen3), rotates both,
and writes keys and values where attention will read them.
"""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl
from phyai_ros.engine.kernels.ahead import Ahead, ask
from phyai_ros.engine.kernels.fp8_rows import Product, _factors


def reference(
    y: torch.Tensor | Product,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    heads: int,
    at: int = 0,
    norms: tuple[torch.Tensor, torch.Tensor] | None = None,
    eps: float = 1e-6,
    ahead: torch.Tensor | None = None,
) -> torch.Tensor | None:
    """y [B T, (heads + 2 kv) d], in parts [parts, B T, ...], or before its scales. cos, sin
    float32 [B or 1, T, d]. key, value [B, kv, L, d]: rows at .. at + T are written. norms: RMS
    weights of queries and of keys, [d] each. kv may be 0: queries alone. -> queries [B, T, heads,
    d] in the cache's dtype, None where heads is 0. ahead: the weight of the next product, which
    changes nothing (``ahead.Ahead``)."""
    batch, kv, _, d = key.shape
    if isinstance(y, Product):
        y = y.scaled() if y.bias is None else y.scaled() + y.bias
    y = y.sum(0) if y.ndim == 3 else y
    wide = torch.float64 if y.dtype == torch.float64 else torch.float32
    y = y.to(wide).view(batch, -1, heads + 2 * kv, d)
    q, k, v = y.split((heads, kv, kv), dim=2)
    if norms is not None:
        q, k = (
            t * torch.rsqrt(t.square().mean(-1, keepdim=True) + eps) * w.to(wide)
            for t, w in ((q, norms[0]), (k, norms[1]))
        )
    if kv:  # queries alone may be more than the cache has room for
        length = y.shape[1]
        key[:, :, at : at + length] = _rotate(k, cos, sin).transpose(1, 2).to(key.dtype)
        value[:, :, at : at + length] = v.transpose(1, 2).to(value.dtype)
    return _rotate(q, cos, sin).to(key.dtype) if heads else None


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [B, T, heads, d], half-split layout."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * cos[:, :, None] + turned * sin[:, :, None]


@jit
def rope_cache_kernel(
    y_ptr, row_ptr, column_ptr, bias_ptr, cos_ptr, sin_ptr, q_ptr, key_ptr, value_ptr,
    q_norm_ptr, k_norm_ptr, ahead_ptr, T, at, rows, table_stride, cache_batch, cache_head,
    cache_row, ahead_count, ahead_row, ahead_stride, eps,
    HEADS: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, SCALED: tl.constexpr, BIASED: tl.constexpr,
    NORM: tl.constexpr, STEP: tl.constexpr, SHARE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b = row // T
    t = row % T
    i = tl.arange(0, HALF)
    inside = i < D // 2
    here = (head < HEADS + 2 * KV)[:, None] & inside[None, :]
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    cos = tl.load(cos_ptr + b * table_stride + t * D + i, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + b * table_stride + t * D + i, mask=inside, other=0.0)
    width = (HEADS + 2 * KV) * D
    first = tl.zeros([BLOCK, HALF], tl.float32)
    second = tl.zeros([BLOCK, HALF], tl.float32)
    for part in tl.static_range(PARTS):
        source = y_ptr + part * rows * width + row * width + head[:, None] * D + i[None, :]
        first += tl.load(source, mask=here, other=0.0).to(tl.float32)
        second += tl.load(source + D // 2, mask=here, other=0.0).to(tl.float32)
    if SCALED:
        column = head[:, None] * D + i[None, :]
        factor = tl.load(row_ptr + row)
        first *= factor * _factors(column_ptr + column, here)
        second *= factor * _factors(column_ptr + D // 2 + column, here)
        if BIASED:
            first += tl.load(bias_ptr + column, mask=here, other=0.0).to(tl.float32)
            second += tl.load(bias_ptr + D // 2 + column, mask=here, other=0.0).to(tl.float32)
    if PDL and SHARE > 0:
        program = tl.program_id(1) * rows + row
        ask(program, ahead_ptr, ahead_count, ahead_row, ahead_stride, STEP, SHARE)
    is_query = (head < HEADS)[:, None]
    is_value = (head >= HEADS + KV)[:, None]
    one, other = first, second
    if NORM:
        inverse = tl.rsqrt(tl.sum(first * first + second * second, 1) / D + eps)[:, None]
        q_one = tl.load(q_norm_ptr + i, mask=inside, other=0.0).to(tl.float32)[None, :]
        k_one = tl.load(k_norm_ptr + i, mask=inside, other=0.0).to(tl.float32)[None, :]
        q_two = tl.load(q_norm_ptr + D // 2 + i, mask=inside, other=0.0).to(tl.float32)[None, :]
        k_two = tl.load(k_norm_ptr + D // 2 + i, mask=inside, other=0.0).to(tl.float32)[None, :]
        one = first * inverse * tl.where(is_query, q_one, k_one)
        other = second * inverse * tl.where(is_query, q_two, k_two)
    turned = one * cos[None, :] - other * sin[None, :]
    other = other * cos[None, :] + one * sin[None, :]
    first = tl.where(is_value, first, turned)
    second = tl.where(is_value, second, other)
    first = first.to(q_ptr.dtype.element_ty)
    second = second.to(q_ptr.dtype.element_ty)
    if HEADS > 0:
        out = q_ptr + (row * HEADS + head)[:, None] * D + i[None, :]
        tl.store(out, first, mask=here & is_query)
        tl.store(out + D // 2, second, mask=here & is_query)
    if KV > 0:
        kv = (head - HEADS) % KV
        offset = (b * cache_batch + kv * cache_head + (at + t) * cache_row)[:, None] + i[None, :]
        is_key = here & (head >= HEADS)[:, None] & (head < HEADS + KV)[:, None]
        tl.store(key_ptr + offset, first, mask=is_key)
        tl.store(key_ptr + offset + D // 2, second, mask=is_key)
        tl.store(value_ptr + offset, first, mask=here & is_value)
        tl.store(value_ptr + offset + D // 2, second, mask=here & is_value)


def fused(
    y: torch.Tensor | Product,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    heads: int,
    at: int = 0,
    norms: tuple[torch.Tensor, torch.Tensor] | None = None,
    eps: float = 1e-6,
    ahead: torch.Tensor | None = None,
    dependent: bool = False,
) -> torch.Tensor | None:
    """``reference`` in one launch. key and value have the same strides, their last is 1; so have
    cos and sin, and a request's rows are contiguous; so is the rest."""
    batch, kv, _, d = key.shape
    product = y if isinstance(y, Product) else None
    assert product is None or product.rows is not None, "of E5M2 rows none is rotated"
    y = y.values if isinstance(y, Product) else y
    rows = y.shape[-2]
    length = rows // batch
    q = torch.empty(batch, length, max(heads, 0), d, dtype=key.dtype, device=y.device)
    options = {"launch_pdl": True} if dependent else {}
    unused = y if norms is None else norms[0]
    half = power_of_two(d // 2)
    block = max(1, min(power_of_two(heads + 2 * kv), (1024 if rows > 128 else 256) // half))
    blocks = -(-(heads + 2 * kv) // block)
    asked = Ahead.of(ahead, rows * blocks, y)
    rope_cache_kernel[(rows, blocks)](
        y, *((y, y) if product is None else (product.rows, product.columns)),
        y if product is None or product.bias is None else product.bias,
        cos, sin, q if heads else key, key, value, unused,
        unused if norms is None else norms[1], asked.weight,
        length, at, rows, 0 if cos.shape[0] == 1 else cos.stride(0), key.stride(0), key.stride(1),
        key.stride(2), asked.lines, asked.a_row, asked.stride, eps,
        HEADS=heads, KV=kv, D=d, HALF=half, BLOCK=block,
        PARTS=y.shape[0] if y.ndim == 3 else 1, SCALED=product is not None,
        BIASED=product is not None and product.bias is not None, NORM=norms is not None,
        **asked.constants, PDL=dependent, num_warps=4 if block * half > 512 else 2, **options,
    )  # fmt: skip
    return q if heads else None
