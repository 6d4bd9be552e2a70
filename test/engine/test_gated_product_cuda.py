# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The gated product of many rows in one launch against its float64 twin. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import gated_linear, gated_product
from phyai_ros.engine.kernels.gated_product import Form
from phyai_ros.engine.quantize import E5M2, QuantizedWeight, in_e5m2, quantize_rows

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
FORMS = [Form(1, 0), Form(1, 1), Form(2, 0), Form(2, 1), Form(2, 2)]


def check(rand, rows, channels, depth, form, dtype=torch.bfloat16, activation="gelu_tanh"):
    x = torch.full((rows + 1, depth), torch.nan, dtype=dtype, device=DEVICE)
    x[:rows] = rand(rows, depth, dtype=dtype, scale=3.0)
    x, weight = x[:rows], rand(2 * channels, depth, dtype=dtype, scale=depth**-0.5)
    found = gated_product.fused(x, weight, activation, form=form)
    expected = gated_linear.reference(x.double(), weight.double(), activation)
    for first in range(0, rows, 64):
        part = slice(first, first + 64)
        nearness.check(found[part], expected[part], TOLERANCE[dtype])
    for first in range(0, channels, 64):
        part = slice(first, first + 64)
        nearness.check(found[:, part], expected[:, part], TOLERANCE[dtype])
    return x, weight, found


@needs_hopper
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_prefix(rand, form, dtype):
    check(rand, 816, 2048, 2048, form, dtype)


@needs_hopper
@pytest.mark.parametrize("form", [FORMS[0], FORMS[3]], ids=str)
@pytest.mark.parametrize("rows", [128, 129, 208, 209, 415, 417, 800, 832, 864, 896, 928, 968, 1100])
def test_rows(rand, form, rows):
    check(rand, rows, 512, 448, form)


@needs_hopper
@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
def test_activations(rand, activation):
    x, weight, _ = check(rand, 160, 6144, 2048, FORMS[3], activation=activation)
    x *= 30.0  # gates far on either side
    found = gated_product.fused(x, weight, activation, form=FORMS[3])
    expected = gated_linear.reference(x.double(), weight.double(), activation)
    nearness.check(found, expected, TOLERANCE[x.dtype])


@needs_hopper
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_same_bits_in_a_chain_of_early_launches(rand, form):
    """All of pi0.5's channels; rows come from the kernel right in front, in a captured graph."""
    x, weight, _ = check(rand, 816, 16384, 2048, form)
    given = x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = []
        for _ in range(3):
            x.zero_()
            x.copy_(given)
            outs += [
                gated_product.fused(x, weight, "gelu_tanh", form=form, dependent=True)
                for _ in range(2)
            ]
    expected = gated_product.fused(x, weight, "gelu_tanh", form=form)
    for _ in range(30):
        graph.replay()
        for out in outs:
            assert torch.equal(out, expected)


@needs_hopper
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("rows", [128, 203, 816, 968])
def test_e4m3(rand, form, rows):
    """Rows and channels of very different sizes: each has its own scale. Sums that are left to the
    tensor cores hold some 14 bits, gates' and ups' both."""
    tolerance = 2 * TOLERANCE[torch.bfloat16]
    x = quantize_rows(rand(rows, 2048) * 10.0 ** rand(rows, 1))
    weight = QuantizedWeight.of(rand(2048, 2048, scale=0.02) * 2.0 ** rand(2048, 1))
    found = gated_product.fused_fp8(x, weight, "gelu_tanh", form=form)
    expected = gated_product.reference_fp8(x, weight, "gelu_tanh")
    for first in range(0, rows, 8):
        part = slice(first, first + 8)
        nearness.check(found[part], expected[part], tolerance)
    for first in range(0, 1024, 32):
        part = slice(first, first + 32)
        nearness.check(found[:, part], expected[:, part], tolerance)


@needs_hopper
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("rows", [128, 203, 816, 968])
def test_e5m2_is_left(rand, form, rows):
    """What the same kernel leaves in bfloat16, which is held against float64 above, as the nearest
    E5M2 number, or, rounded once and not twice, its neighbour; what is more than the largest is the
    largest. The same bits again in a chain."""
    x = quantize_rows(rand(rows, 2048) * 10.0 ** rand(rows, 1))
    weight = QuantizedWeight.of(rand(2048, 2048, scale=0.02) * 2.0 ** rand(2048, 1))
    options = {"form": form, "leaves": E5M2}
    found = gated_product.fused_fp8(x, weight, "gelu_tanh", **options)
    expected = in_e5m2(gated_product.fused_fp8(x, weight, "gelu_tanh", form=form))
    assert found.dtype == E5M2
    same = found.view(torch.uint8) == expected.view(torch.uint8)
    for first in range(0, rows, 8):
        assert same[first : first + 8].float().mean() > 0.95
    for first in range(0, 1024, 16):
        assert same[:, first : first + 16].float().mean() > 0.95
    found_wide, expected = found.double(), expected.double()
    assert ((found_wide - expected).abs() <= 0.26 * expected.abs() + 2.0**-16).all()
    for _ in range(5):
        again = gated_product.fused_fp8(x, weight, "gelu_tanh", dependent=True, **options)
        assert torch.equal(again.view(torch.uint8), found.view(torch.uint8))


def test_sizes_that_do_not_fit_are_refused():
    x, weight = torch.zeros(200, 448), torch.zeros(1024, 448)
    with pytest.raises(ValueError, match=r"gelu_tanh of \(200, 448\) .* on cpu"):
        gated_product.fused(x, weight, "gelu_tanh", form=Form())
