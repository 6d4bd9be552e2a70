# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image tower's queries by warpgroups against its float64 twin. Needs a Hopper GPU,
but for how tiles are dealt out."""

from itertools import pairwise

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import attention, many_attention

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


def packed(rand, batch, length, heads, dtype, scale=1.0):
    """Queries, keys and values of one packed product, with columns of somebody else's behind."""
    y = rand(batch * length, 3 * heads * 64 + 8, dtype=dtype)
    y[:, : heads * 64] *= scale
    y[:, 3 * heads * 64 :] = torch.nan
    y = y[:, : 3 * heads * 64].unflatten(0, (batch, length)).unflatten(2, (3, heads, 64))
    q, k, v = y.unbind(2)
    return q, k.transpose(1, 2), v.transpose(1, 2)


def check(found, q, k, v, dtype):
    """By request, head and tile of queries: a fault is often of one of them alone."""
    expected = attention.reference(q.double(), k.double(), v.double())
    batch, length, heads, _ = q.shape
    found, expected = (
        t.view(batch, length // 64, 64, heads, 64).transpose(2, 3) for t in (found, expected)
    )
    for place in range(batch * (length // 64) * heads):
        one, other = (t.reshape(-1, 64, 64)[place] for t in (found, expected))
        nearness.check(one, other, TOLERANCE[dtype])


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(
    ("batch", "length", "heads"),
    [(1, 256, 1), (2, 256, 16), (1, 320, 5), (1, 448, 33), (3, 1024, 12), (2, 1024, 3)],
)
def test_shapes(rand, dtype, dependent, batch, length, heads):
    q, k, v = packed(rand, batch, length, heads, dtype)
    assert many_attention.fits(q, k, v)
    check(many_attention.fused(q, k, v, dependent=dependent), q, k, v, dtype)


@needs_hopper
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_flat_and_sharp(rand, scale):
    q, k, v = packed(rand, 1, 1024, 12, torch.bfloat16, scale)
    check(many_attention.fused(q, k, v), q, k, v, torch.bfloat16)


@needs_hopper
def test_maxima_that_rise_until_the_last_key(rand):
    """Every step finds a higher one, so that everything before fades each time."""
    q, k, v = packed(rand, 1, 512, 4, torch.float16)
    q.fill_(1.0)
    k.copy_(torch.linspace(-1.0, 1.0, 512, device=DEVICE)[None, None, :, None].expand_as(k))
    check(many_attention.fused(q, k, v), q, k, v, torch.float16)


@needs_hopper
def test_the_same_bits_every_time(rand):
    """In a captured graph, behind the kernel that has just written the keys, 200 times."""
    q, k, v = packed(rand, 3, 1024, 12, torch.bfloat16)
    given = [t.clone() for t in (q, k, v)]
    first = many_attention.fused(q, k, v)

    def chain():
        for to, what in zip((q, k, v), given, strict=True):
            to.zero_()
            to.copy_(what)
        return [many_attention.fused(q, k, v, dependent=True) for _ in range(3)]

    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = chain()
    for _ in range(200):
        graph.replay()
        assert all(torch.equal(out, first) for out in outs)


def test_what_does_not_fit_is_refused():
    q = torch.zeros(1, 256, 2, 64, dtype=torch.float16)
    with pytest.raises(ValueError, match="queries"):
        many_attention.fused(q, q.transpose(1, 2), q.transpose(1, 2))


@pytest.mark.parametrize("processors", [78, 132])
@pytest.mark.parametrize("tiles", [4, 128, 132, 133, 576, 660, 661, 1536])
def test_tiles_are_dealt_out_evenly(tiles, processors):
    """As the kernel deals them: all of them, nearly as many to each block, five at most."""
    blocks, most = many_attention.arranged(tiles, processors)
    begins = [i * tiles // blocks for i in range(blocks + 1)]
    shares = [b - a for a, b in pairwise(begins)]
    assert sum(shares) == tiles
    assert max(shares) == most <= 5
    assert most - min(shares) <= 1
    assert blocks <= max(processors, -(-tiles // 5))
    assert many_attention.shared(most) <= 227 * 1024
