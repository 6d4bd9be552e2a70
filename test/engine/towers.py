# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the tests of attention in image towers share."""

from __future__ import annotations

import nearness
import torch

from phyai_ros.engine.kernels import attention

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


def check_the_same_bits(q, k, v, launches):
    """In a captured graph, behind the kernel that has just written the keys, 200 times. launches:
    of (q, k, v, dependent=)."""
    given = [t.clone() for t in (q, k, v)]
    first = [launch(q, k, v) for launch in launches]

    def chain():
        for to, what in zip((q, k, v), given, strict=True):
            to.zero_()
            to.copy_(what)
        return [launch(q, k, v, dependent=True) for launch in launches]

    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = chain()
    for _ in range(200):
        graph.replay()
        assert all(torch.equal(out, one) for out, one in zip(outs, first, strict=True))
