# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image tower's queries by warpgroups against its float64 twin. Needs a Hopper GPU,
but for how tiles are dealt out."""

from itertools import pairwise

import pytest
import torch
from hopper import DEVICE, needs_hopper
from towers import TOLERANCE, check, check_the_same_bits, packed

from phyai_ros.engine.kernels import many_attention


@needs_hopper
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(
    ("batch", "length", "heads"),
    [(1, 256, 1), (2, 256, 16), (1, 320, 5), (1, 448, 33), (3, 1024, 12), (2, 1024, 3)],
)
def test_shapes(rand, dtype, dependent, batch, length, heads):
    q, k, v = packed(rand, batch, length, heads, 64, dtype)
    assert many_attention.fits(q, k, v)
    check(many_attention.fused(q, k, v, dependent=dependent), q, k, v, dtype)


@needs_hopper
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_flat_and_sharp(rand, scale):
    q, k, v = packed(rand, 1, 1024, 12, 64, torch.bfloat16, scale)
    check(many_attention.fused(q, k, v), q, k, v, torch.bfloat16)


@needs_hopper
def test_maxima_that_rise_until_the_last_key(rand):
    """Every step finds a higher one, so that everything before fades each time."""
    q, k, v = packed(rand, 1, 512, 4, 64, torch.float16)
    q.fill_(1.0)
    k.copy_(torch.linspace(-1.0, 1.0, 512, device=DEVICE)[None, None, :, None].expand_as(k))
    check(many_attention.fused(q, k, v), q, k, v, torch.float16)


@needs_hopper
def test_the_same_bits_every_time(rand):
    q, k, v = packed(rand, 3, 1024, 12, 64, torch.bfloat16)
    check_the_same_bits(q, k, v, [many_attention.fused] * 3)


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
