# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels of one warpgroup after the other on a CPU: attention of image towers and of a head's
queries, products of some hundred rows."""

import nearness
import pytest
import torch
from emulated_gpu import emulated, needs_compiler

from phyai_ros.engine.kernels import (
    attention,
    gated_linear,
    head_attention,
    many_attention,
    regroup,
    skinny_linear,
    tower_attention,
    wide_product,
)
from phyai_ros.engine.kernels.fragments import from_fragments
from phyai_ros.engine.kernels.head_attention import HeadAttention, Queries, Turn
from phyai_ros.engine.kernels.tower_attention import Form as Whole
from phyai_ros.engine.kernels.wide_product import Form

pytestmark = [needs_compiler, pytest.mark.slow]
__all__ = ["emulated"]
FP16, BF16 = torch.float16, torch.bfloat16
TOLERANCE = {FP16: 1e-3, BF16: 8e-3}


def rand(*shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape) * scale).to(dtype)


@pytest.mark.parametrize(
    ("batch", "length", "heads", "processors", "dtype"),
    [(1, 256, 5, 4, BF16), (2, 320, 2, 5, FP16), (1, 1024, 1, 4, BF16)],
)
def test_attention_of_a_tower(emulated, batch, length, heads, processors, dtype):
    emulated.multi_processor_count = processors
    rows = rand(batch * length, 3 * heads * 64 + 8, dtype=dtype)[:, : 3 * heads * 64]
    q, key, value = rows.unflatten(0, (batch, length)).unflatten(2, (3, heads, 64)).unbind(2)
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    assert many_attention.fits(q, key, value)
    wide = (t.double() for t in (q, key, value))
    found = many_attention.fused(q, key, value)
    nearness.check(found, attention.reference(*wide), TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("form", "batch", "length", "heads", "d", "dtype"),
    [
        (Whole(2), 1, 256, 3, 72, FP16),
        (Whole(1), 2, 256, 1, 72, BF16),
        (Whole(1), 1, 256, 2, 64, BF16),
        (Whole(2), 1, 256, 1, 80, FP16),
        (Whole(1), 1, 512, 1, 48, BF16),
    ],
)
def test_attention_of_a_tower_at_once(emulated, form, batch, length, heads, d, dtype):
    rows = rand(batch * length, 3 * heads * d + 8, dtype=dtype)
    rows[:, 3 * heads * d :] = torch.nan
    rows = rows[:, : 3 * heads * d].unflatten(0, (batch, length)).unflatten(2, (3, heads, d))
    q, key, value = rows.unbind(2)
    q.mul_(4.0)
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    for k, v in ((key, value), (key.contiguous(), value.contiguous())):
        assert tower_attention.fits(q, k, v)
        found = tower_attention.fused(q, k, v, form=form)
        expected = attention.reference(q.double(), k.double(), v.double())
        nearness.check(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("m", "n", "k", "form", "activation", "dtype"),
    [
        (150, 320, 960, Form(80, 3, 1), "", BF16),
        (150, 320, 960, Form(80, 3, 2), "", FP16),
        (241, 256, 2560, Form(64, 4, 2), "", BF16),
        (65, 160, 960, Form(80, 1, 2), "silu", BF16),
        (200, 320, 960, Form(80, 1, 1), "gelu_tanh", FP16),
        (241, 192, 960, Form(96, 5, 2), "", BF16),
    ],
)
def test_products(emulated, m, n, k, form, activation, dtype):
    x, weight = rand(m, k, dtype=dtype), rand(n, k, dtype=dtype, scale=k**-0.5)
    found = wide_product.fused(x, weight, activation, form=form)
    if activation:
        expected = gated_linear.reference(x.double(), weight.double(), activation)
        nearness.check(found, expected, TOLERANCE[dtype])
    else:
        expected = skinny_linear.reference_parts(x.double(), weight.double())[0]
        nearness.check(found.double().sum(0), expected, 1e-5)


@pytest.mark.parametrize(
    ("rows", "keys", "width", "d", "dtype"),
    [(50, 241, 768, 64, BF16), (1, 64, 768, 64, FP16), (41, 160, 512, 48, BF16)],
)
def test_attention_that_makes_its_queries(emulated, rows, keys, width, d, dtype):
    key, value = (rand(keys, 2 * d, dtype=dtype) for _ in range(2))
    heads = 4
    _, copy, _ = regroup.reference_into(torch.randn(rows, width), dtype)
    weight = rand(heads * d, width, dtype=dtype, scale=width**-0.5)
    queries = Queries(1 + torch.randn(width) * 0.2, weight)
    angle = torch.randn(rows, d // 2)
    turn = Turn(*(torch.cat([f, f], -1) for f in (angle.cos(), angle.sin())), 1e-5)
    exists = torch.rand(keys) > 0.1
    out = torch.full((heads * d // 16, 4, 32, 8), torch.nan, dtype=dtype)
    kernel = HeadAttention(key, value, d, constant=True, queries=queries)
    kernel(copy, out=out, rows=rows, exists=exists, turn=turn)
    q = head_attention.reference_queries(copy.double(), rows, queries, turn, d)
    wide = head_attention.reference(q, key.double(), value.double(), d, exists=exists)
    expected = from_fragments(wide, rows)
    nearness.check(from_fragments(out, rows), expected, TOLERANCE[dtype])
