# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA's action expert in clusters, at the published width with few layers: against its twin in
float64, then inside the model. Needs a Hopper GPU."""

import sys
from dataclasses import replace
from pathlib import Path

import nearness
import pytest
import torch
from hopper import (
    DEVICE,
    NOTHING,
    answer,
    check_a_refused_compiler,
    check_requests_one_behind_the_other,
    needs_hopper,
    runner,
)

from phyai_ros.engine import solver
from phyai_ros.engine.kernels import flow_step, llama_expert, split_linear
from phyai_ros.engine.kernels.flow_step import Euler, Step
from phyai_ros.engine.kernels.fragments import from_fragments, from_groups
from phyai_ros.engine.kernels.llama_expert import Layer, LlamaExpert
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import FLOAT32, SmolVlaInputs, SmolVlaModel
from phyai_ros.engine.runner import Runner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import synthetic

HEADS, KV, D, EPS, WIDTH, MLP, ACTIONS = 15, 5, 64, 1e-5, 768, 2048, 32


class Case:
    """Random layers, every other one with own keys, and one request's rows and caches; what may not
    be looked at is poison."""

    def __init__(self, rand, depth, tokens, at, dtype):
        def weight(out, width):
            return rand(out, width, scale=width**-0.5, dtype=dtype)

        self.tokens = tokens
        self.layers, self.keys, self.values = [], [], []
        for i in range(depth):
            own = i % 2 == 0
            norms = tuple(1 + rand(WIDTH, scale=0.2) for _ in range(2))
            heads = HEADS + 2 * KV if own else HEADS
            self.layers.append(
                Layer(
                    norms, weight(heads * D, WIDTH), weight(WIDTH, HEADS * D),
                    weight(2 * MLP, WIDTH), weight(WIDTH, MLP), own,
                )
            )  # fmt: skip
            for caches in (self.keys, self.values):
                cache = rand(at + tokens * own, KV * D, dtype=dtype)
                cache[at:] = torch.nan
                caches.append(cache)
        self.x = rand(tokens, ACTIONS)
        self.hidden, self.enter, self.leave = (
            (rand(out, width, scale=width**-0.5), rand(out))
            for out, width in ((WIDTH, ACTIONS), (WIDTH, WIDTH), (ACTIONS, WIDTH))
        )
        self.exists = torch.rand(at + tokens, device=DEVICE) > 0.1
        self.exists[at:] = True
        angles = [rand(tokens, D // 2) for _ in range(2)]
        self.tables = [tuple(torch.cat([f, f], -1) for f in (a.cos(), a.sin())) for a in angles]

    def expert(self, dependent=True):
        return LlamaExpert(
            self.layers, self.enter, self.leave, tokens=self.tokens, heads=HEADS, kv=KV, eps=EPS,
            dependent=dependent,
        )  # fmt: skip

    def rest(self, expert):
        """What a call takes besides x."""
        past = expert.over(self.keys, self.values)
        return self.hidden, past, self.exists, *self.tables

    def expected(self):
        caches = ([t.double() for t in side] for side in (self.keys, self.values))
        return llama_expert.reference(
            self.x.double(), self.layers, self.hidden, self.enter, self.leave, *caches, self.exists,
            *self.tables, heads=HEADS, kv=KV, eps=EPS,
        )  # fmt: skip


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "at"), [(50, 241), (50, 113), (64, 448), (41, 70), (1, 5)])
def test_against_float64(rand, tokens, at, dtype):
    case = Case(rand, 4, tokens, at, dtype)
    expected, expert = case.expected(), case.expert()
    found = expert(case.x, *case.rest(expert))
    nearness.check(found, expected, 3e-3 if dtype == torch.float16 else 2e-2)


@needs_hopper
@pytest.mark.cuda
def test_early_launches_give_the_bits_of_launches_one_by_one(rand):
    """16 layers, whose queries, keys, values and sums come from the kernel right in front."""
    case = Case(rand, 16, 50, 241, torch.bfloat16)
    plain, expert = case.expert(dependent=False), case.expert()
    first = plain(case.x, *case.rest(plain))
    rest = case.rest(expert)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        expert(case.x, *rest)
        torch.cuda.synchronize()
        graph.capture_begin()
        outs = [expert(case.x, *rest) for _ in range(3)]
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


@needs_hopper
@pytest.mark.cuda
def test_steps_taken_along_by_early_launches(rand):
    """A solver's loop whose calls start early behind each other, in a captured graph: the bits of
    the same steps by themselves, one launch behind the other."""
    case = Case(rand, 4, 50, 241, torch.bfloat16)
    target, weights = rand(50, ACTIONS), rand(50, ACTIONS).abs()
    plain, expert = case.expert(dependent=False), case.expert()
    rests = [case.rest(plain), case.rest(expert)]

    def numbers(i):
        return Step(-1.0, 1.0 - i / 5, 0.3 * i, 5)

    x = case.x
    for i in range(5):
        v = plain(x, *rests[0])
        x = flow_step.fused(x, v, target, weights, **numbers(i)._asdict())

    def loop():
        y = case.x
        for i in range(5):
            euler = Euler(y, target, weights, numbers(i))
            y = expert(y, *rests[1], euler=euler, first=i == 0)
        return y

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        loop()
        torch.cuda.synchronize()
        graph.capture_begin()
        out = loop()
        graph.capture_end()
    torch.cuda.synchronize()
    graph.replay()
    nearness.check(out, x, 1e-5)
    again = out.clone()
    for _ in range(100):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, again)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("tokens", [1, 50, 64])
def test_what_enters_is_as_good_as_float32(rand, tokens):
    """Of the two launches in front of the layers, in bfloat16."""
    case = Case(rand, 1, tokens, 70, torch.bfloat16)
    expert = case.expert()
    weight, bias = case.hidden
    split_linear.fused_rows(case.x, weight, bias, out=expert._split)
    wide = (t.double() for t in (case.x, weight, bias))
    hidden = torch.nn.functional.silu(torch.nn.functional.linear(*wide))
    high, _, low = from_fragments(expert._split.double(), tokens).chunk(3, 1)
    nearness.check(high + low, hidden, 3e-5)
    enter, bias = expert._enter
    enter(expert._split, rows=tokens, x=expert._x, out=expert._copy, bias=bias, begins=True)
    weight, bias = (t.double() for t in case.enter)
    found = from_groups(expert._x, tokens)
    nearness.check(found, torch.nn.functional.linear(hidden, weight, bias), 3e-5)


@needs_hopper
@pytest.mark.cuda
def test_more_keys_than_the_kernel_takes(rand):
    case = Case(rand, 2, 50, 449, torch.bfloat16)
    assert case.expert().over(case.keys, case.values) is None


def adapter(batch=1, cameras=3, words=48):
    """Of published widths, a few layers deep, in 16 bit."""
    config = SmolVlaConfig.parse({"type": "smolvla"}, None, "published")
    vlm = config.vlm
    vlm = replace(vlm, vision=replace(vlm.vision, num_hidden_layers=1))
    config = replace(config, vlm=vlm, num_vlm_layers=4)
    model = synthetic._fill(
        SmolVlaModel, config, DEVICE,
        lambda n: torch.float32 if n.startswith(FLOAT32) else torch.bfloat16,
    )  # fmt: skip
    side = config.vlm.vision.image_size
    mask = torch.ones(batch, words, dtype=torch.bool, device=DEVICE)
    mask[:, words - words // 4 :] = False
    inputs = SmolVlaInputs(
        tuple(torch.rand(batch, 3, side, side, device=DEVICE) * 2 - 1 for _ in range(cameras)),
        tuple(torch.ones(batch, dtype=torch.bool, device=DEVICE) for _ in range(cameras)),
        torch.randint(0, 49000, (batch, words), device=DEVICE),
        mask,
        torch.randn(batch, config.max_state_dim, device=DEVICE),
    )
    spec = synthetic._spec("smolvla", config.chunk_size, config.max_action_dim, config.num_steps)
    shape = config.chunk_size, config.max_action_dim
    return synthetic.SyntheticAdapter(spec, model, "flow_backward", inputs, shape)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("cameras", [1, 3])
def test_in_the_model(cameras):
    given = adapter(cameras=cameras)
    noise = torch.randn(given.noise_shape(1))
    made, _ = runner(given)
    made.capture(NOTHING)
    uncaptured, asked = runner(given)
    uncaptured.operators.table = made.operators.table  # what was measured for other operators
    eager = answer(uncaptured, noise)
    assert len(asked) == 10
    for _ in range(20):
        assert torch.equal(answer(made, noise), eager)  # a replay gives the eager run's bits
    assert made.replayed == 20
    by_layers = answer(runner(given, "library")[0], noise)
    reference = answer(Runner(given, DEVICE, "reference"), noise)
    given.model.float()
    exact = answer(Runner(given, DEVICE, "reference"), noise)
    largest = exact.abs().max()
    own, layers, ours = (float((y - exact).abs().max() / largest)
                         for y in (reference, by_layers, eager))  # fmt: skip
    print(f"reference {own:.1e}, by layers {layers:.1e}, clusters {ours:.1e}")
    assert ours < max(1.25 * own, 1e-3)


@needs_hopper
@pytest.mark.cuda
def test_eager_requests_one_behind_the_other():
    given = adapter()
    inputs = given.inputs
    others = [replace(inputs, images=tuple(t.roll(i, -1) for t in inputs.images)) for i in range(6)]
    check_requests_one_behind_the_other(given, others)


@needs_hopper
@pytest.mark.cuda
def test_guided_requests():
    given = adapter()
    noise = torch.randn(given.noise_shape(1))
    guide = solver.RtcIdentity(torch.randn_like(noise), torch.rand_like(noise))
    made, asked = runner(given)
    made.capture(NOTHING)
    found, expected = (answer(r, noise, guide) for r in (made, Runner(given, DEVICE, "reference")))
    assert (found - expected).abs().max() / expected.abs().max() < 3e-2
    assert made.replayed == 1
    assert asked


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("options", [{"batch": 2}, {"cameras": 8}])
def test_other_requests_go_layer_by_layer(options):
    given = adapter(**options)
    made, asked = runner(given)
    answer(made, torch.randn(given.noise_shape(options.get("batch", 1))))
    assert not asked


@needs_hopper
@pytest.mark.cuda
def test_a_compiler_that_fails_is_told_once_and_costs_nothing(monkeypatch, caplog):
    check_a_refused_compiler(monkeypatch, caplog, adapter(), llama_expert, "HeadAttention")


def test_other_sizes_and_devices_are_not_served():
    norms = (torch.ones(WIDTH), torch.ones(WIDTH))
    shapes = ((1600, WIDTH), (WIDTH, 960), (4096, WIDTH), (WIDTH, MLP))
    layer = Layer(norms, *(torch.zeros(s, dtype=torch.bfloat16) for s in shapes), own=True)
    enter, leave = torch.zeros(WIDTH, WIDTH), torch.zeros(ACTIONS, WIDTH)
    assert not llama_expert.fits([layer], enter, leave, 50, HEADS, KV)  # on the CPU
    assert llama_expert.form("rope", (1600, WIDTH), d=D, heads=HEADS, kv=KV) is not None
    assert llama_expert.form("rope", (1600, 720), d=D, heads=HEADS, kv=KV) is None
    assert llama_expert.form("output", (WIDTH, 960)).k == 1024  # filled
