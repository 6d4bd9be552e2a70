# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention, plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, L, heads*d] -> [B, heads, L, d], a view."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """[B, heads, L, d] -> [B, L, heads*d]."""
    return x.transpose(1, 2).flatten(2)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: torch.Tensor | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """q [B, Hq, Lq, d], k and v [B, Hk, Lk, d] -> [B, Hq, Lq, d]. Hq a multiple of Hk: grouped.

    mask: bool (True = attend) or additive in q's dtype, broadcast to [B, Hq, Lq, Lk]. A row with
    nothing to attend to is the caller's business (see ``zero_rows``): kernels differ there.
    """
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )


def attention_float32_logits(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: torch.Tensor
) -> torch.Tensor:
    """``attention`` with logits and softmax in float32 and probabilities rounded to v's dtype, as
    references do that write attention out, and as CUDA's fused kernels do by themselves. mask:
    bool; every row attends to something."""
    if v.dtype == torch.float32 or v.is_cuda:
        return attention(q, k, v, mask=mask)
    groups = q.shape[1] // k.shape[1]
    grouped = q.float().unflatten(1, (k.shape[1], groups))
    logits = grouped @ k.float().unsqueeze(2).transpose(-1, -2) * q.shape[-1] ** -0.5
    logits = logits.masked_fill(~mask.unsqueeze(2), torch.finfo(torch.float32).min)
    return (logits.softmax(-1).to(v.dtype) @ v.unsqueeze(2)).flatten(1, 2)


def additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """bool mask -> 0 where True, the dtype's lowest number where False. A row that is all False
    stays finite (uniform), so that it can be zeroed afterwards."""
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, torch.finfo(dtype).min)


def zero_rows(out: torch.Tensor, attends: torch.Tensor) -> torch.Tensor:
    """Zero the attention output of rows that may attend to nothing. attends: bool, broadcast to
    out's shape. torch's own reference (safe softmax) gives 0 there."""
    return out.masked_fill(~attends, 0.0)
