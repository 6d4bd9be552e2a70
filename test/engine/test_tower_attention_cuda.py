# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Attention of an image's patches, all keys of a head in shared memory, against its float64 twin.
Needs a Hopper GPU, but for what is offered."""

from functools import partial

import pytest
import torch
from hopper import DEVICE, needs_hopper
from towers import TOLERANCE, check, check_the_same_bits, packed

from phyai_ros.engine.kernels import tower_attention
from phyai_ros.engine.kernels.tower_attention import Form


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
    q, k, v = packed(rand, 3, 256, 16, 72, torch.float16)
    forms = tower_attention.forms(256, 72)
    check_the_same_bits(q, k, v, [partial(tower_attention.fused, form=f) for f in forms])


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
