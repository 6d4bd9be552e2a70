# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A diffusion transformer's layers in clusters: products, rows and whole stacks against float64,
then inside GR00T at its published width with few layers. Needs a Hopper GPU."""

import sys
from pathlib import Path

import nearness
import pytest
import torch
from hopper import (
    DEVICE,
    NOTHING,
    answer,
    check_a_refused_compiler,
    needs_hopper,
    runner,
)

from phyai_ros.engine.kernels import dit_layers, dit_product
from phyai_ros.engine.kernels.dit_layers import DitLayers, Layer
from phyai_ros.engine.kernels.dit_product import DitProduct, Form, Stream, stream_of
from phyai_ros.engine.kernels.fragments import from_fragments, from_groups, into_fragments
from phyai_ros.engine.runner import Runner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import synthetic

BF16 = torch.bfloat16
EPS = 1e-5
SIZES = {"heads": 32, "eps": EPS, "last_eps": 1e-6}
LINEARS = [
    Form(4608, 1536, 3, 2, 144, part=8, row_major=True),
    Form(1536, 1536, 4, 2, 64, part=8, row_major=True),
    Form(6144, 1536, 2, 2, 96, part=8, activation="gelu_tanh"),
    Form(6144, 1536, 2, 2, 128, part=16, activation="gelu_tanh"),
    Form(320, 768, 1, 2, 64, part=24),
    Form(96, 128, 1, 1, 32, row_major=True),
]
RESIDUALS = [
    Form(1536, 1536, 4, 2, 64, residual=True),
    Form(1536, 1536, 4, 1, 64, residual=True),
    Form(1536, 6144, 8, 2, 128, residual=True),
    Form(192, 256, 1, 2, 48, residual=True),
]


def rows_of(rand, rows, width):
    """Columns of very different size, and a mean."""
    return rand(rows, width) * (1 + 5 * rand(width).abs()) + rand(1, width) + 0.5


def linear(rand, n, k):
    return rand(n, k, scale=k**-0.5, dtype=BF16), rand(n, dtype=BF16)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("rows", [1, 8, 41, 64])
@pytest.mark.parametrize("form", LINEARS, ids=str)
def test_products(rand, form, rows):
    weight, bias = linear(rand, form.n, form.k)
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
    weight, bias = linear(rand, form.n, form.k)
    source, scale = into_fragments(rand(rows, form.k, dtype=BF16)), 1 + rand(form.n, scale=0.2)
    stream = stream_of(rows_of(rand, rows, form.n), None, form.own, BF16)
    stream.scaled.fill_(torch.nan), stream.statistics.fill_(torch.nan)
    expected = dit_product.reference(
        source.double(), weight, bias, form, rows=rows, x=stream.x.double()
    )
    DitProduct(weight, bias, form)(source, rows=rows, stream=stream, scale=scale)
    same_stream(stream, expected, scale, form.own, 1e-6)


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
    nearness.check(from_fragments(stream.scaled, rows), x.double() * scale.double(), 4e-3)
    told = stream.statistics.view(-1, 4, 8, 2, 2).permute(3, 1, 4, 2, 0).flatten(1, 3)[:, :rows]
    split = x.double().unflatten(1, (-1, part))
    mean = split.mean(2)
    nearness.check(told[0], mean, 1e-5)
    nearness.check(told[1], (split - mean[..., None]).square().sum(2), 1e-5)


class Case:
    """Random layers, cross and self attention by turns, as views of one product's rows."""

    def __init__(self, rand, depth, tokens=41, keys=160):
        self.tokens = tokens
        self.layers = [
            Layer(
                linear(rand, 4608 if i % 2 else 1536, 1536), linear(rand, 1536, 1536),
                linear(rand, 6144, 1536), linear(rand, 1536, 6144),
            )
            for i in range(depth)
        ]  # fmt: skip
        self.last = linear(rand, 1024, 1536)
        made = rand(keys, depth, 2, 1536, dtype=BF16)
        sides = [[None if i % 2 else made[:, i, j] for i in range(depth)] for j in range(2)]
        self.keys, self.values = sides
        mask = torch.rand(keys, device=DEVICE) < 0.7
        mask[0] = True
        self.exists = [None if i % 2 else (mask, None)[i // 2 % 2] for i in range(depth)]
        self.modulations = [
            (1 + rand(1536, scale=0.2), rand(1536, scale=0.2)) for _ in range(depth + 1)
        ]
        self.x = rows_of(rand, tokens, 1536)

    def made(self, dependent=True):
        return DitLayers(self.layers, self.last, tokens=self.tokens, dependent=dependent, **SIZES)

    def rest(self, made):
        (norms,) = made.folded([self.modulations])
        return made.over(self.keys, self.values), self.exists, norms

    def expected(self):
        return dit_layers.reference(
            self.x.double(), self.layers, self.last, self.keys, self.values, self.exists,
            self.modulations, **SIZES,
        )  # fmt: skip


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize(("tokens", "keys"), [(41, 160), (41, 33), (64, 256), (17, 170), (1, 1)])
def test_layers_against_float64(rand, tokens, keys):
    case = Case(rand, 4, tokens, keys)
    made = case.made()
    nearness.check(made(case.x, *case.rest(made)), case.expected(), 2e-2)


@needs_hopper
@pytest.mark.cuda
def test_early_launches_give_the_bits_of_launches_one_by_one(rand):
    case = Case(rand, 32)
    plain, made = case.made(dependent=False), case.made()
    first = plain(case.x, *case.rest(plain))
    rest = case.rest(made)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        made(case.x, *rest)
        torch.cuda.synchronize()
        graph.capture_begin()
        outs = [made(case.x, *rest) for _ in range(3)]
        graph.capture_end()
    torch.cuda.synchronize()
    different = torch.zeros((), dtype=torch.int64, device=DEVICE)
    for _ in range(100):
        for out in outs:
            out.fill_(torch.nan)
        graph.replay()
        for out in outs:
            different += (out != first).any()
    assert int(different) == 0


def groot(words=20, batch=1):
    """Published widths, a few layers deep."""
    dit = {
        "num_layers": 4, "num_attention_heads": 32, "attention_head_dim": 48, "output_dim": 1024,
        "interleave_self_attention": True,
    }  # fmt: skip
    head = {"diffusion_model_cfg": dit, "select_layer": 2}
    return synthetic.groot(DEVICE, BF16, words, batch, head)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("words", [3, 20, 100])
def test_in_the_model(words):
    adapter = groot(words)
    noise = torch.randn(adapter.noise_shape(1))
    made, asked = runner(adapter)
    made.capture(NOTHING)
    assert made.model._dit.clusters.kernels is not None
    replayed = [answer(made, noise) for _ in range(20)]
    assert made.replayed == 20
    made.release()
    asked.clear()
    eager = answer(made, noise)
    assert len(asked) == 4  # steps
    for found in replayed:
        assert torch.equal(found, eager)  # a replay gives the eager run's bits
    by_operators = answer(runner(adapter, "library")[0], noise)
    reference = answer(Runner(adapter, DEVICE, "reference"), noise)
    adapter.model.float()
    exact = answer(Runner(adapter, DEVICE, "reference"), noise)
    largest = exact.abs().max()
    own = (reference - exact).abs().max() / largest
    by_operators = (by_operators - exact).abs().max() / largest
    found = (eager - exact).abs().max() / largest
    print("reference", float(own), "by operators", float(by_operators), "clusters", float(found))
    assert found < max(1.5 * own, 1e-3)


@needs_hopper
@pytest.mark.cuda
def test_more_keys_than_a_block_holds_and_batches_go_operator_by_operator():
    for adapter, batch in ((groot(500), 1), (groot(batch=2), 2)):
        made, asked = runner(adapter)
        answer(made, torch.randn(adapter.noise_shape(batch)))
        assert not asked


@needs_hopper
@pytest.mark.cuda
def test_a_compiler_that_fails_is_told_once_and_costs_nothing(monkeypatch, caplog):
    check_a_refused_compiler(monkeypatch, caplog, groot(), dit_layers, "DitProduct")


def test_other_sizes_and_devices_are_not_served():
    def zeros(n, k):
        return torch.zeros(n, k, dtype=BF16), torch.zeros(n, dtype=BF16)

    published = Layer(zeros(4608, 1536), zeros(1536, 1536), zeros(6144, 1536), zeros(1536, 6144))
    assert dit_layers.forms([published], zeros(1024, 1536)) is not None
    assert not dit_layers.fits([published], zeros(1024, 1536), 41, 32)  # on the CPU
    small = Layer(zeros(288, 96), zeros(96, 96), zeros(384, 96), zeros(96, 384))
    assert dit_layers.forms([small], zeros(64, 96)) is None


def test_the_twin_of_a_stream_holds_its_rows(rand):
    x, scale = rows_of(rand, 41, 192), 1 + rand(192, scale=0.2)
    same_stream(stream_of(x, scale, 24, BF16), x, scale, 24, 1e-7)
