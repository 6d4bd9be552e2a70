# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of few queries over many keys, the keys split over blocks.

Queries that share a key-value head are folded into one tile, so keys and values are read once.
Each split leaves its own mean of the values, its maximum and its denominator; a second launch joins
them (Flash-Decoding, Dao et al. 2023). One split needs no second launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import jit, power_of_two, tl, unspecialised


@dataclass(frozen=True)
class Blocks:
    """rows of folded queries x keys a step; splits of the keys; pipeline stages; warps; wide: 1
    where splits leave their parts in float32."""

    rows: int = 64
    keys: int = 64
    splits: int = 1
    stages: int = 2
    warps: int = 4
    wide: int = 0


def reference(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    exists: torch.Tensor | None = None,
    causal: bool = False,
    own_last: bool = False,
    first_alone: bool = False,
    q_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """q [B, T, heads, d] (any strides), or parts [parts, B, T, heads, d] to be summed; q_bias
    [heads d]. key, value [B, kv, L, d]. exists: bool [B, L], which keys there are, None for all;
    a request with none gets zeros. The last T keys are the queries' own. causal: query t sees the
    keys up to L - T + t. own_last: the last key is seen by the last query alone. first_alone: the
    first query sees no own key but its own. -> [B, T, heads d] in key's dtype."""
    q = q.sum(0) if q.ndim == 5 else q
    if q_bias is not None:
        q = q + q_bias.view(q.shape[-2:]).to(q.dtype)
    batch, length, heads, d = q.shape
    kv, keys = key.shape[1], key.shape[2]
    q = q.to(key.dtype).transpose(1, 2)
    if kv > 1 and kv != heads:
        key, value = (t.repeat_interleave(heads // kv, 1) for t in (key, value))
    elif kv == 1 and heads > 1 and not (causal or own_last or first_alone):
        q = q.reshape(batch, 1, heads * length, d)
    elif heads > 1 and kv == 1:
        key, value = (t.expand(-1, heads, -1, -1) for t in (key, value))
    mask = None
    if exists is not None:
        mask = exists[:, None, None, :]
    if causal:
        ahead = torch.ones(length, keys, dtype=torch.bool, device=q.device).tril(keys - length)
        mask = ahead if mask is None else mask & ahead
    if own_last:
        seen = torch.ones(length, keys, dtype=torch.bool, device=q.device)
        seen[:-1, -1] = False
        mask = seen if mask is None else mask & seen
    if first_alone:
        seen = torch.ones(length, keys, dtype=torch.bool, device=q.device)
        seen[0, keys - length + 1 :] = False
        mask = seen if mask is None else mask & seen
    if mask is not None:
        low = torch.finfo(q.dtype).min
        empty = ~mask.any(-1, keepdim=True)
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, low)
        out = F.scaled_dot_product_attention(q, key, value, attn_mask=bias).masked_fill(empty, 0.0)
    else:
        out = F.scaled_dot_product_attention(q, key, value)
    return out.reshape(batch, heads, length, d).transpose(1, 2).reshape(batch, length, heads * d)


@unspecialised("q_parts")
def attention_kernel(
    q_ptr, k_ptr, v_ptr, exists_ptr, bias_ptr, out_ptr, sum_ptr, low_ptr,
    T, L, scale, q_parts, q_part, q_batch, q_row, q_head,
    k_batch, k_head, k_row, v_batch, v_head, v_row, keys_per_split,
    KV: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    Q_PARTS: tl.constexpr, Q_BIAS: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    OWN_LAST: tl.constexpr, FIRST_ALONE: tl.constexpr, SPLITS: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, IEEE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    split = tl.program_id(1)
    b = tl.program_id(2) // KV
    kv = tl.program_id(2) % KV
    rows = tile * ROWS + tl.arange(0, ROWS)
    there = rows < GROUP * T
    g = rows // T
    t = rows % T
    head = kv * GROUP + g
    i = tl.arange(0, WIDE)
    inside = i < D
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    q_at = q_ptr + b * q_batch + t[:, None] * q_row + head[:, None] * q_head + i[None, :]
    q_there = there[:, None] & inside[None, :]
    if not Q_PARTS:
        q = tl.load(q_at, mask=q_there, other=0.0)
    else:
        q = tl.zeros([ROWS, WIDE], tl.float32)
        for part in range(q_parts):
            q += tl.load(q_at + part * q_part, mask=q_there, other=0.0).to(tl.float32)
        if Q_BIAS:
            q += tl.load(bias_ptr + head[:, None] * D + i[None, :], mask=q_there, other=0.0).to(
                tl.float32
            )
    q = q.to(k_ptr.dtype.element_ty)
    high = tl.full([ROWS], float("-inf"), tl.float32)
    norm = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS, WIDE], tl.float32)
    start = split * keys_per_split
    stop = tl.minimum(start + keys_per_split, L)
    for n in range(0, keys_per_split, KEYS):
        key = start + n + tl.arange(0, KEYS)
        real = key < stop
        k = tl.load(
            k_ptr + b * k_batch + kv * k_head + key[None, :] * k_row + i[:, None],
            mask=real[None, :] & inside[:, None], other=0.0,
        )  # fmt: skip
        v = tl.load(
            v_ptr + b * v_batch + kv * v_head + key[:, None] * v_row + i[None, :],
            mask=real[:, None] & inside[None, :], other=0.0,
        )  # fmt: skip
        if MASKED:
            real = real & (tl.load(exists_ptr + b * L + key, mask=real, other=0) != 0)
        score = tl.dot(q, k, input_precision="ieee" if IEEE else "tf32") * scale
        seen = real[None, :] & there[:, None]
        if CAUSAL:
            seen = seen & (key[None, :] <= L - T + t[:, None])
        if OWN_LAST:
            seen = seen & ((key[None, :] < L - 1) | (t[:, None] == T - 1))
        if FIRST_ALONE:
            seen = seen & ((key[None, :] <= L - T) | (t[:, None] > 0))
        score = tl.where(seen, score, float("-inf"))
        above = tl.maximum(high, tl.max(score, 1))
        finite = tl.where(above == float("-inf"), 0.0, above)
        p = tl.exp2(score - finite[:, None])
        fade = tl.exp2(high - finite)
        norm = norm * fade + tl.sum(p, 1)
        total = total * fade[:, None]
        total = tl.dot(p.to(v.dtype), v, total, input_precision="ieee" if IEEE else "tf32")
        high = above
    if SPLITS == 1:
        y = total / tl.where(norm == 0.0, 1.0, norm)[:, None]
        out = out_ptr + ((b * T + t) * KV * GROUP + head)[:, None] * D + i[None, :]
        tl.store(out, y.to(out_ptr.dtype.element_ty), mask=q_there)
    else:
        place = (split * tl.num_programs(2) + tl.program_id(2)) * GROUP * T + rows
        y = total / tl.where(norm == 0.0, 1.0, norm)[:, None]
        at = sum_ptr + place[:, None] * D + i[None, :]
        tl.store(at, y.to(sum_ptr.dtype.element_ty), mask=q_there)
        tl.store(low_ptr + 2 * place, high, mask=there)
        tl.store(low_ptr + 2 * place + 1, norm, mask=there)


@jit
def join_kernel(
    sum_ptr, low_ptr, out_ptr, T, rows, B,
    KV: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    SPLITS: tl.constexpr, WIDE_SPLITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    outer = tl.program_id(1)
    i = tl.arange(0, WIDE)
    inside = i < D
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    s = tl.arange(0, WIDE_SPLITS)
    place = (s * B * KV + outer) * rows + row
    high = tl.load(low_ptr + 2 * place, mask=s < SPLITS, other=float("-inf"))
    norm = tl.load(low_ptr + 2 * place + 1, mask=s < SPLITS, other=0.0)
    top = tl.max(high, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    denominator = tl.sum(norm * tl.exp2(high - top), 0)
    inverse = 1.0 / tl.where(denominator == 0.0, 1.0, denominator)
    weight = norm * tl.exp2(high - top) * inverse
    parts = tl.load(
        sum_ptr + place[:, None] * D + i[None, :],
        mask=(s < SPLITS)[:, None] & inside[None, :], other=0.0,
    ).to(tl.float32)  # fmt: skip
    y = tl.sum(parts * weight[:, None], 0)
    g = row // T
    t = row % T
    out = out_ptr + (((outer // KV) * T + t) * KV * GROUP + (outer % KV) * GROUP + g) * D + i
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=inside)


def fused(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    exists: torch.Tensor | None = None,
    causal: bool = False,
    own_last: bool = False,
    first_alone: bool = False,
    q_bias: torch.Tensor | None = None,
    blocks: Blocks,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference``, in one launch or two. Last axes contiguous; exists contiguous."""
    parts = q.shape[0] if q.ndim == 5 else 0
    if q_bias is not None and not parts:
        raise ValueError("a bias is added only where parts are summed")
    batch, length, heads, d = q.shape[-4:]
    kv, keys = key.shape[1], key.shape[2]
    group, wide = heads // kv, max(16, power_of_two(d))
    rows, per_split = group * length, -(-keys // blocks.splits)
    per_split = -(-per_split // blocks.keys) * blocks.keys
    splits = -(-keys // per_split)
    out = torch.empty(batch, length, heads * d, dtype=key.dtype, device=q.device)
    if splits > 1:
        part = torch.float32 if blocks.wide else key.dtype
        sums = torch.empty(splits, batch * kv * rows, d, dtype=part, device=q.device)
        lows = torch.empty(splits, batch * kv * rows, 2, dtype=torch.float32, device=q.device)
    else:
        sums = lows = out
    q_stride = q.stride()[-4:]
    options = {"launch_pdl": True} if dependent else {}
    seen = out if exists is None else exists.view(torch.uint8)
    attention_kernel[(-(-rows // blocks.rows), splits, batch * kv)](
        q, key, value, seen, q if q_bias is None else q_bias, out, sums, lows,
        length, keys, score_scale(d), parts, q.stride(0) if parts else 0,
        *q_stride[:3],
        *key.stride()[:3], *value.stride()[:3], per_split,
        KV=kv, GROUP=group, D=d, WIDE=wide, Q_PARTS=parts > 0, Q_BIAS=q_bias is not None,
        MASKED=exists is not None, CAUSAL=causal, OWN_LAST=own_last, FIRST_ALONE=first_alone,
        SPLITS=splits, ROWS=blocks.rows, KEYS=blocks.keys, IEEE=key.dtype == torch.float32,
        PDL=dependent, num_warps=blocks.warps, num_stages=blocks.stages, **options,
    )  # fmt: skip
    if splits > 1:
        join_kernel[(rows, batch * kv)](
            sums, lows, out, length, rows, batch, KV=kv, GROUP=group, D=d, WIDE=wide,
            SPLITS=splits, WIDE_SPLITS=power_of_two(splits), PDL=dependent,
            num_warps=1 if d < 128 else 2, **options,
        )  # fmt: skip
    return out


def score_scale(d: int) -> float:
    """Of scores of d columns, d^-0.5 log2(e): kernels make powers of two of them."""
    return float(d**-0.5 * 1.4426950408889634)
