# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of a prefix's queries in clusters against its float64 twin. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import attention, prefix_attention
from phyai_ros.engine.kernels.prefix_attention import Form

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
FORMS = [Form(0, 0), Form(0, 1), Form(4, 1), Form(8, 1), Form(8, 0)]


def case(rand, batch, length, keys, dtype, missing=0.2, scale=1.0):
    q = rand(batch, length, 8, 256, dtype=dtype, scale=scale)
    key, value = (rand(batch, 1, keys, 256, dtype=dtype) for _ in range(2))
    return q, key, value, torch.rand(batch, keys, device=DEVICE) >= missing


def check(q, key, value, exists, form, **options):
    found = prefix_attention.fused(q, key, value, exists=exists, form=form, **options)
    for i in range(len(q)):
        one = (t[i : i + 1].double() for t in (q, key, value))
        seen = None if exists is None else exists[i : i + 1]
        expected = attention.reference(*one, exists=seen)
        for head in range(8):
            columns = slice(head * 256, (head + 1) * 256)
            nearness.check(found[i : i + 1, :, columns], expected[..., columns], TOLERANCE[q.dtype])
    return found


@needs_hopper
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("length", [816, 968])
def test_prefix(rand, form, dtype, length):
    check(*case(rand, 1, length, length, dtype), form)


@needs_hopper
@pytest.mark.parametrize("form", [FORMS[1], FORMS[-1]], ids=str)
@pytest.mark.parametrize("keys", [64, 65, 95, 97, 128, 193, 255, 416, 1023, 3840])
@pytest.mark.parametrize("length", [1, 16, 17])
def test_sizes(rand, form, keys, length):
    check(*case(rand, 2, length, keys, torch.bfloat16), form)


@needs_hopper
@pytest.mark.parametrize("batch", [2, 7])
def test_batches(rand, batch):
    check(*case(rand, batch, 137, 500, torch.bfloat16), FORMS[1])


@needs_hopper
@pytest.mark.parametrize("half", [0, 1])
def test_a_half_that_does_not_exist(rand, half):
    q, key, value, exists = case(rand, 1, 100, 816, torch.bfloat16)
    exists[:, half * 408 : half * 408 + 416] = False
    check(q, key, value, exists, FORMS[1])


@needs_hopper
def test_no_mask_and_no_key(rand):
    q, key, value, exists = case(rand, 1, 100, 816, torch.bfloat16)
    check(q, key, value, None, FORMS[1])
    exists[:] = False
    assert (prefix_attention.fused(q, key, value, exists=exists, form=FORMS[1]) == 0).all()


@needs_hopper
def test_sharp_attention_that_grows(rand):
    """Scores of later keys are far above those of the first, so that sums are scaled anew."""
    q, key, value, exists = case(rand, 1, 200, 816, torch.bfloat16, scale=4.0)
    key *= torch.linspace(0.1, 3.0, 816, device=DEVICE).to(key.dtype)[:, None]
    check(q, key, value, exists, FORMS[1])


@needs_hopper
def test_the_same_bits_in_a_chain_of_early_launches(rand):
    """Queries and keys come from the kernels right in front, in a captured graph."""
    q, key, value, exists = case(rand, 1, 816, 816, torch.bfloat16)
    first = check(q, key, value, exists, FORMS[1], dependent=True)
    given = [t.clone() for t in (q, key, value)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = []
        for _ in range(4):
            for to, what in zip((q, key, value), given, strict=True):
                to.zero_()
                to.copy_(what)
            outs += [
                prefix_attention.fused(q, key, value, exists=exists, form=FORMS[1], dependent=True)
                for _ in range(2)
            ]
    for _ in range(100):
        graph.replay()
        for out in outs:
            assert torch.equal(out, first)


def test_sizes_that_do_not_fit_are_refused():
    q, key = torch.zeros(1, 4, 8, 256), torch.zeros(1, 1, 90, 256)
    with pytest.raises(ValueError, match=r"queries \(1, 4, 8, 256\), keys .* on cpu"):
        prefix_attention.fused(q, key, key, form=Form())
