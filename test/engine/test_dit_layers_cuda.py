# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A diffusion transformer's layers in clusters: whole stacks against float64, then inside GR00T at
its published width with few layers. Needs a Hopper GPU."""

import sys
from pathlib import Path

import nearness
import pytest
import torch
from dit_case import BF16, EPS, USED, linear, published, rows_of
from hopper import (
    DEVICE,
    NOTHING,
    answer,
    check_a_refused_compiler,
    needs_hopper,
    runner,
)

from phyai_ros.engine.kernels import dit_layers
from phyai_ros.engine.kernels.dit_layers import DitLayers, Layer
from phyai_ros.engine.runner import Runner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import synthetic

SIZES = {"heads": 32, "eps": EPS, "last_eps": 1e-6}


class Case:
    """Random layers, cross and self attention by turns, as views of one product's rows."""

    def __init__(self, rand, depth, tokens=41, keys=160, fp8=False):
        self.tokens = tokens
        self.layers = [
            Layer(
                linear(rand, 4608, 1536, fp8) if i % 2 else linear(rand, 1536, 1536),
                linear(rand, 1536, 1536), linear(rand, 6144, 1536, fp8),
                linear(rand, 1536, 6144, fp8),
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
@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize(("tokens", "keys"), [(41, 160), (41, 33), (64, 256), (17, 170), (1, 1)])
def test_layers_against_float64(rand, tokens, keys, fp8):
    case = Case(rand, 4, tokens, keys, fp8)
    made = case.made()
    nearness.check(made(case.x, *case.rest(made)), case.expected(), 2e-2)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("fp8", [False, True])
def test_early_launches_give_the_bits_of_launches_one_by_one(rand, fp8):
    case = Case(rand, 32, fp8=fp8)
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
    # A replay gives the bits of an eager run whose operators were chosen as its own were.
    apart = [float((found - eager).abs().max()) for found in replayed]
    assert not any(apart), (apart, sorted(made.operators.table.times))
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
def test_in_the_model_in_fp8():
    """As near as the same numbers by torch are."""
    adapter = groot()
    noise = torch.randn(adapter.noise_shape(1))
    plain = answer(Runner(adapter, DEVICE, "reference"), noise)
    synthetic.quantised(adapter, DEVICE)
    made, asked = runner(adapter)
    found = answer(made, noise)
    assert made.model._dit.clusters.kernels is not None
    assert [name.split()[0] for name in asked] == ["fp8"] * 4
    made.capture(NOTHING)
    captured = answer(made, noise)
    asked.clear()
    largest = plain.abs().max()
    emulated = answer(Runner(adapter, DEVICE, "reference"), noise)
    by_operators = answer(runner(adapter, "library")[0], noise)
    error = {
        name: float((of - plain).abs().max() / largest)
        for name, of in (("emulated", emulated), ("operators", by_operators), ("clusters", found))
    }
    print(error, "captured", float((captured - found).abs().max() / largest))
    assert error["clusters"] < max(1.5 * error["emulated"], 1e-3)
    assert error["operators"] < max(1.5 * error["emulated"], 1e-3)


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

    for used in USED.values():
        assert set(used) == {"own", "cross", "output", "up", "down", "last"}
    assert {kind for kind, form in USED[True].items() if form.fp8} == {"own", "up", "down"}
    assert not dit_layers.fits(*published(), 41, 32)  # on no GPU
    small = Layer(zeros(288, 96), zeros(96, 96), zeros(384, 96), zeros(96, 384))
    assert dit_layers.forms([small], zeros(64, 96)) is None
