# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Products of some hundred rows against their float64 twins. Needs a Hopper GPU, but for which
forms are offered."""

from itertools import product

import nearness
import pytest
import torch
from hopper import needs_hopper

from phyai_ros.engine.kernels import _cuda, gated_linear, skinny_linear, wide_product
from phyai_ros.engine.kernels.wide_product import Form

NEAR = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
SHAPES = [(65, 160, 320), (128, 320, 960), (129, 1600, 960), (241, 960, 2560), (256, 640, 960)]


def check(found, expected, tolerance):
    """By tile of 64 rows and 80 columns: a fault is often of one of them alone."""
    for rows, wanted in zip(found.split(64), expected.split(64), strict=True):
        for one, other in zip(rows.split(80, 1), wanted.split(80, 1), strict=True):
            nearness.check(one, other, tolerance)


@needs_hopper
@pytest.mark.parametrize("dtype", list(NEAR))
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_parts(rand, dtype, dependent, m, n, k):
    x, weight = rand(m, k, dtype=dtype), rand(n, k, dtype=dtype, scale=k**-0.5)
    expected = skinny_linear.reference_parts(x.double(), weight.double())[0]
    shapes = product((64, 80, 96, 128), (1, 3, 4, 5), (1, 2))
    every = [form for shape in shapes if (form := Form(*shape)).fits(n, k)]
    assert {form.sharing for form in every} == {1, 2}
    for form in every:
        found = wide_product.fused(x, weight, form=form, dependent=dependent)
        assert found.shape == (form.splits, m, n)
        check(found.double().sum(0), expected, 1e-4)


@needs_hopper
@pytest.mark.parametrize("dtype", list(NEAR))
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize(("m", "n", "k"), [(65, 160, 320), (241, 5120, 960), (200, 320, 512)])
def test_gated(rand, dtype, activation, m, n, k):
    x, weight = rand(m, k, dtype=dtype), rand(n, k, dtype=dtype, scale=k**-0.5)
    expected = gated_linear.reference(x.double(), weight.double(), activation)
    every = [form for c, s in product((64, 80), (1, 2)) if (form := Form(c, 1, s)).fits(n, k)]
    assert {form.sharing for form in every} == {1, 2}
    for form in every:
        check(wide_product.fused(x, weight, activation, form=form), expected, NEAR[dtype])


@needs_hopper
@pytest.mark.parametrize("sharing", [1, 2])
def test_the_same_bits_in_a_chain_of_early_launches(rand, sharing):
    """x comes from the product right in front, in a captured graph."""
    x = rand(241, 960, dtype=torch.bfloat16)
    gates, back = (rand(n, k, dtype=torch.bfloat16, scale=k**-0.5)
                   for n, k in ((5120, 960), (960, 2560)))  # fmt: skip

    def chain(dependent):
        forms = Form(80, 1, sharing), Form(80, 5, sharing)
        h = wide_product.fused(x, gates, "silu", form=forms[0], dependent=dependent)
        return wide_product.fused(h, back, form=forms[1], dependent=dependent)

    first = chain(False)
    chain(True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = [chain(True) for _ in range(4)]
    for _ in range(200):
        graph.replay()
        assert all(torch.equal(out, first) for out in outs)


@needs_hopper
def test_the_selector_is_offered_forms_of_16_bits_alone(rand):
    weight = rand(1600, 960, dtype=torch.bfloat16)
    assert wide_product.forms(241, weight)
    assert not wide_product.forms(241, weight.float())


def test_forms_fill_the_multiprocessors():
    """Of SmolVLA's language model; each block's weights fit beside some of x."""
    for n, k, gated, blocks in (
        (1600, 960, False, 120), (960, 960, False, 120), (960, 2560, False, 120),
        (5120, 960, True, 128),
    ):  # fmt: skip
        best, *_ = wide_product.arranged(241, n, k, 132, gated=gated)
        assert n // best.columns * best.splits * 2 == blocks
        assert best.shared(k) <= _cuda.MOST_SHARED
    assert not wide_product.arranged(241, 1600, 968, 132)
    assert not wide_product.arranged(241, 50, 960, 132)


def test_what_does_not_fit_is_refused():
    x, weight = torch.zeros(70, 96), torch.zeros(160, 96)
    with pytest.raises(ValueError, match="does not fit N 160, K 96"):
        wide_product.fused(x, weight, form=Form(80))
    x, weight = torch.zeros(70, 640), torch.zeros(160, 640)
    with pytest.raises(ValueError, match="activation 'silu'"):
        wide_product.fused(x, weight, "silu", form=Form(80, 2))
    assert not wide_product.forms(70, weight.half())  # on the CPU
