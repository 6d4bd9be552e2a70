# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert in clusters, at the published width with few layers, against its twin in
float64. In its models: test_pi_experts_cuda.py. Needs a Hopper GPU."""

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper

from phyai_ros.engine.kernels import gemma_expert, gemma_forms
from phyai_ros.engine.kernels.fragments import from_groups
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer, Linear, Vectors
from phyai_ros.engine.quantize import QuantizedWeight, widened

HEADS, EPS = 8, 1e-6
NO_LINEAR = Linear(torch.zeros(32, 1024, device=DEVICE), torch.zeros(32, device=DEVICE))


class Case:
    """Random layers, and one request's rows and cache; what may not be looked at is poison."""

    def __init__(self, rand, depth, tokens, at, dtype, adaptive=True, alone=False, fp8=False):
        def weight(out, width):
            made = rand(out, width, scale=width**-0.5, dtype=dtype)
            return QuantizedWeight.of(made, dtype) if fp8 else made

        def vectors():
            scale = 1 + rand(1024, scale=0.2)
            return Vectors(scale, rand(1024, scale=0.2), rand(1024)) if adaptive else Vectors(scale)

        self.at, self.tokens, self.alone = at, tokens, alone
        self.layers = [
            Layer(weight(2560, 1024), weight(1024, 2048), weight(8192, 1024), weight(1024, 4096))
            for _ in range(depth)
        ]
        self.norms = [vectors() for _ in range(2 * depth)]
        self.x = rand(tokens, 1024)
        self.key, self.value = (rand(depth, 1, 1, at + tokens, 256, dtype=dtype) for _ in range(2))
        for t in (self.key, self.value):
            t[..., at:, :] = torch.nan
        self.exists = torch.rand(1, at + tokens, device=DEVICE) > 0.1
        self.exists[:, at:] = True
        angle = rand(1, tokens, 128)
        self.cos, self.sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))

    def expert(self, dependent=True):
        return GemmaExpert(
            self.layers, tokens=self.tokens, heads=HEADS, eps=EPS, alone=self.alone,
            dependent=dependent,
        )  # fmt: skip

    def rest(self, expert):
        """What a call takes besides x."""
        past = expert.over(self.key[:, 0, 0], self.value[:, 0, 0], at=self.at)
        (folded,) = expert.folded([[*self.norms, self.norms[0]]], NO_LINEAR)
        return past, self.exists[0], self.cos[0], self.sin[0], folded.norms

    def run(self, expert, rest):
        """-> x after the last layer."""
        stream = expert.enter(self.x, self.norms[0].scale)
        expert(stream, *rest)
        return from_groups(stream.groups, self.tokens)

    def expected(self):
        """Of rows that are not rounded, whatever the weights are."""
        layers = [
            Layer(*(widened(w, torch.float64) for w in vars(x).values())) for x in self.layers
        ]
        return gemma_expert.reference(
            self.x.double(), layers, self.norms, self.key.double(), self.value.double(),
            self.exists, self.cos, self.sin, heads=HEADS, at=self.at, eps=EPS, alone=self.alone,
        )  # fmt: skip


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "at"), [(50, 816), (50, 969), (64, 1120), (41, 70), (1, 5)])
@pytest.mark.parametrize("adaptive", [True, False])
def test_against_float64(rand, tokens, at, dtype, adaptive):
    case = Case(rand, 2, tokens, at, dtype, adaptive)
    expected, expert = case.expected(), case.expert()
    found = case.run(expert, case.rest(expert))
    nearness.check(found, expected, 3e-3 if dtype == torch.float16 else 2e-2)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("at", [816, 969])
def test_e4m3_against_float64(rand, at):
    """pi0.5's; pi0's expert, whose first row sees no other, stays in 16 bits."""
    case = Case(rand, 2, 50, at, torch.float16, fp8=True)
    expected, expert = case.expected(), case.expert()
    nearness.check(case.run(expert, case.rest(expert)), expected, 9e-2)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "at"), [(51, 816), (64, 1120), (2, 5)])
def test_a_first_row_that_sees_no_other(rand, tokens, at, dtype):
    """Its own row, keys and values as well as the others', and whatever the others are."""
    case = Case(rand, 2, tokens, at, dtype, adaptive=False, alone=True)
    expected, expert = case.expected(), case.expert()
    rest, tolerance = case.rest(expert), 3e-3 if dtype == torch.float16 else 2e-2
    found = case.run(expert, rest)
    nearness.check(found, expected, tolerance)
    nearness.check(found[:1], expected[:1], tolerance)
    kept = [t[..., at, :].clone() for t in (case.key, case.value)]
    case.x[1:] = rand(tokens - 1, 1024)
    again = case.run(expert, rest)
    assert torch.equal(again[0], found[0])
    assert not torch.equal(again[1:], found[1:])
    for t, was in zip((case.key, case.value), kept, strict=True):
        assert torch.equal(t[..., at, :], was)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("fp8", [False, True])
def test_early_launches_give_the_bits_of_launches_one_by_one(rand, fp8):
    """18 layers, whose queries, keys, values and sums come from the kernel right in front."""
    case = Case(rand, 18, 50, 816, torch.float16, fp8=fp8)
    plain, expert = case.expert(dependent=False), case.expert()
    first = case.run(plain, case.rest(plain))
    rest = case.rest(expert)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        case.run(expert, rest)
        torch.cuda.synchronize()
        graph.capture_begin()
        outs = [case.run(expert, rest) for _ in range(3)]
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


def test_other_sizes_and_devices_are_not_served():
    layer = Layer(
        *(torch.zeros(s, dtype=torch.float16)
          for s in ((2560, 1024), (1024, 2048), (8192, 1024), (1024, 4096)))
    )  # fmt: skip
    assert not gemma_expert.fits([layer], 50, HEADS)  # on the CPU
    assert gemma_forms.form(layer.qkv, "rope") is not None
    assert gemma_forms.form(layer.qkv[:, :1000], "rope") is None  # no whole steps of a product
