# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image's patches, all keys of a head in shared memory, against its float64 twin.
Needs a Hopper GPU, but for what is offered."""

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import attention, tower_attention
from phyai_ros.engine.kernels.tower_attention import Form

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


def packed(rand, batch, length, heads, d, dtype, scale=1.0):
    """Queries, keys and values of one packed product, with columns of somebody else's behind."""
    y = rand(batch * length, 3 * heads * d + 8, dtype=dtype)
    y[:, : heads * d] *= scale
    y[:, 3 * heads * d :] = torch.nan
    y = y[:, : 3 * heads * d].unflatten(0, (batch, length)).unflatten(2, (3, heads, d))
    q, k, v = y.unbind(2)
    return q, k.transpose(1, 2), v.transpose(1, 2)


def check(found, q, k, v, dtype):
    """By request, head and 64 queries: a fault is often of one of them alone."""
    expected = attention.reference(q.double(), k.double(), v.double())
    batch, length, heads, d = q.shape
    found, expected = (
        t.view(batch, length // 64, 64, heads, d).transpose(2, 3).reshape(-1, 64, d)
        for t in (found, expected)
    )
    for one, other in zip(found, expected, strict=True):
        nearness.check(one, other, TOLERANCE[dtype])


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(
    ("batch", "length", "heads", "d"),
    [(3, 256, 16, 72), (2, 256, 16, 64), (1, 256, 3, 80), (2, 256, 5, 48), (1, 512, 2, 64)],
)
def test_shapes(rand, dtype, dependent, batch, length, heads, d):
    q, k, v = packed(rand, batch, length, heads, d, dtype)
    assert tower_attention.fits(q, k, v)
    for form in tower_attention.forms(length, d):
        for key, value in ((k, v), (k.contiguous(), v.contiguous())):
            found = tower_attention.fused(q, key, value, form=form, dependent=dependent)
            check(found, q, k, v, dtype)


@needs_hopper
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_flat_and_sharp(rand, scale):
    q, k, v = packed(rand, 3, 256, 16, 72, torch.bfloat16, scale)
    for form in tower_attention.forms(256, 72):
        check(tower_attention.fused(q, k, v, form=form), q, k, v, torch.bfloat16)


@needs_hopper
def test_maxima_that_rise_until_the_last_key(rand):
    """Every step finds a much higher one, so that everything before fades each time."""
    q, k, v = packed(rand, 1, 256, 4, 72, torch.float16)
    q.fill_(4.0)
    k.copy_(torch.linspace(-1.0, 1.0, 256, device=DEVICE)[None, None, :, None].expand_as(k))
    for form in tower_attention.forms(256, 72):
        check(tower_attention.fused(q, k, v, form=form), q, k, v, torch.float16)


@needs_hopper
def test_the_same_bits_every_time(rand):
    """In a captured graph, behind the kernel that has just written the keys, 200 times."""
    q, k, v = packed(rand, 3, 256, 16, 72, torch.float16)
    given = [t.clone() for t in (q, k, v)]
    forms = tower_attention.forms(256, 72)
    first = [tower_attention.fused(q, k, v, form=f) for f in forms]

    def chain():
        for to, what in zip((q, k, v), given, strict=True):
            to.zero_()
            to.copy_(what)
        return [tower_attention.fused(q, k, v, form=f, dependent=True) for f in forms]

    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = chain()
    for _ in range(200):
        graph.replay()
        assert all(torch.equal(out, one) for out, one in zip(outs, first, strict=True))


def test_what_does_not_fit_is_refused():
    q = torch.zeros(1, 256, 2, 72, dtype=torch.float16)
    with pytest.raises(ValueError, match="queries"):
        tower_attention.fused(q, q.transpose(1, 2), q.transpose(1, 2), form=Form())


@pytest.mark.parametrize(("length", "d"), [(256, 72), (256, 64), (512, 64), (512, 48), (256, 80)])
def test_forms_have_room_and_whole_tiles(length, d):
    for form in tower_attention.forms(length, d):
        assert tower_attention.shared(form, length, d) <= 227 * 1024
        assert length % (64 * form.groups * 2) == 0  # queries of a cluster
    assert tower_attention.forms(length, d)
    assert length == 256 or Form(2) not in tower_attention.forms(length, d)


@pytest.mark.parametrize("length", [1024, 320])
def test_keys_that_have_no_room_or_no_halves(length):
    assert not tower_attention.forms(length, 64)
