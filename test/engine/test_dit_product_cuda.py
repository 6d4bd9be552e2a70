# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A diffusion transformer's products in clusters, and how rows travel between them, against
float64. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from dit_case import BF16, EPS, USED, linear, rows_of
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import dit_product
from phyai_ros.engine.kernels.dit_product import DitProduct, Form, Stream, stream_of
from phyai_ros.engine.kernels.e4m3 import narrowed, ordered
from phyai_ros.engine.kernels.fragments import from_fragments, from_groups, into_fragments
from phyai_ros.engine.quantize import E4M3

FORMS = tuple(dict.fromkeys(form for used in USED.values() for form in used.values()))
LINEARS = [
    *(form for form in FORMS if not form.residual),
    Form(4608, 1536, 3, 2, 144, part=8, row_major=True),
    Form(6144, 1536, 2, 2, 96, part=8, activation="gelu_tanh"),
    Form(320, 768, 1, 2, 64, part=24),
    Form(96, 128, 1, 1, 32, row_major=True),
    Form(320, 768, 1, 2, 64, part=24, fp8=True),
    Form(96, 128, 1, 1, 32, row_major=True, fp8=True),
]
RESIDUALS = [
    *(form for form in FORMS if form.residual),
    Form(1536, 1536, 4, 2, 64, residual=True),
    Form(192, 256, 1, 2, 48, residual=True),
    Form(192, 256, 1, 2, 48, residual=True, fp8=True),
]


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("rows", [1, 8, 41, 64])
@pytest.mark.parametrize("form", LINEARS, ids=str)
def test_products(rand, form, rows):
    weight, bias = linear(rand, form.n, form.k, form.fp8)
    x, scale, shift = rows_of(rand, rows, form.k), 1 + rand(form.k, scale=0.2), rand(form.k)
    out = torch.full((form.n // 16, 4, 32, 8), torch.nan, dtype=BF16, device=DEVICE)
    if form.row_major:
        out = torch.full((rows + 1, form.n), torch.nan, dtype=BF16, device=DEVICE)
    options = {"rows": rows, "eps": EPS}
    product = DitProduct(weight, bias, form)
    if form.part:
        given = stream_of(x, scale, form.part, BF16)
        product(
            given.scaled, statistics=given.statistics, out=out, **options,
            sums=dit_product.sums_of(weight, scale),
            bias=dit_product.through(weight, bias, shift),
        )  # fmt: skip
        source = given.x.double()
        options |= {"scale": scale, "shift": shift}
    else:
        source = into_fragments(x.to(BF16))
        product(source, out=out, **options)
        source = source.double()
    found = out[:rows] if form.row_major else from_fragments(out, rows)
    assert not form.row_major or out[rows:].isnan().all()
    nearness.check(found, dit_product.reference(source, weight, bias, form, **options), 8e-3)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("rows", [1, 8, 41, 64])
@pytest.mark.parametrize("form", RESIDUALS, ids=str)
def test_residual_products_leave_the_stream_as_the_next_takes_it(rand, form, rows):
    weight, bias = linear(rand, form.n, form.k, form.fp8)
    source, scale = into_fragments(rand(rows, form.k, dtype=BF16)), 1 + rand(form.n, scale=0.2)
    stream = stream_of(rows_of(rand, rows, form.n), None, form.own, BF16)
    stream.scaled.fill_(torch.nan), stream.statistics.fill_(torch.nan)
    expected = dit_product.reference(
        source.double(), weight, bias, form, rows=rows, x=stream.x.double()
    )
    DitProduct(weight, bias, form)(source, rows=rows, stream=stream, scale=scale)
    # The tensor cores' own sums of E4M3 have about 14 bits.
    same_stream(stream, expected, scale, form.own, 2e-3 if form.fp8 else 1e-6)


@needs_hopper
@pytest.mark.cuda
def test_e4m3_rows_of_any_size(rand):
    """A row's power of two is its own, and its warpgroups'; of zeros there is none."""
    form = Form(96, 1024, 2, 2, 96, row_major=True, fp8=True)
    weight, _ = linear(rand, form.n, form.k, fp8=True)
    x = rand(41, form.k) * torch.exp2(rand(41, scale=20.0))[:, None]
    x[:, form.depth : 2 * form.depth] *= 2.0**-20
    x[3], x[40, : form.depth] = 0, 0
    source = into_fragments(x.to(BF16))
    out = torch.full((41, form.n), torch.nan, dtype=BF16, device=DEVICE)
    none = torch.zeros(form.n, device=DEVICE)
    DitProduct(weight, none, form)(source, rows=41, out=out)
    expected = dit_product.reference(source.double(), weight, none, form, rows=41)
    assert not out[3].any()
    for row in {*range(41)} - {3}:
        nearness.check(out[row], expected[row], 8e-3)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize(("rows", "part"), [(1, 8), (41, 8), (64, 24)])
def test_rows_become_a_stream(rand, rows, part):
    x, scale = rows_of(rand, rows, 1536), 1 + rand(1536, scale=0.2)
    stream = Stream.empty(1536, part, BF16, DEVICE)
    dit_product.begin(x, scale, stream, dependent=True)
    same_stream(stream, x, scale, part, 1e-7)


def same_stream(stream, x, scale, part, tolerance):
    rows = len(x)
    nearness.check(from_groups(stream.x, rows), x, tolerance)
    x = from_groups(stream.x, rows)
    nearness.check(from_fragments(stream.scaled, rows), x.double() * scale.double(), 4e-3)
    told = stream.statistics.view(-1, 4, 8, 2, 2).permute(3, 1, 4, 2, 0).flatten(1, 3)[:, :rows]
    split = x.double().unflatten(1, (-1, part))
    mean = split.mean(2)
    nearness.check(told[0], mean, 1e-5)
    nearness.check(told[1], (split - mean[..., None]).square().sum(2), 1e-5)


def test_the_twin_of_a_stream_holds_its_rows(rand):
    x, scale = rows_of(rand, 41, 192), 1 + rand(192, scale=0.2)
    same_stream(stream_of(x, scale, 24, BF16), x, scale, 24, 1e-7)


def test_operands_of_e4m3_are_in_the_order_of_the_weights():
    """Four neighbours of a lane, in ``e4m3.cuh``: words 0 and 2 of its fragment, or 1 and 3."""
    x = torch.arange(16.0).expand(64, 16)
    fragments = into_fragments(x)[0, 0, :4].view(4, 4, 2)  # of row 0's lanes: word, half
    assert torch.equal(fragments[:, [0, 2]].flatten(), ordered(x.to(E4M3)).float()[0])


def test_e4m3_operands_keep_four_bits(rand):
    x = rand(5, 256) * torch.exp2(rand(5, 1, scale=20.0))
    x[2] = 0
    for ranks in (1, 4):
        found = narrowed(x, ranks)
        most = x.unflatten(1, (ranks, -1)).abs().amax(2, keepdim=True) * 2.0**-17
        most = most.expand(-1, -1, 256 // ranks).flatten(1)
        assert ((found - x).abs() <= torch.maximum(x.abs() / 16, most)).all()
        assert torch.equal(narrowed(found, ranks), found)
