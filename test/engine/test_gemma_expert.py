# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert in clusters, each launch by its kernel's twin, against the expert's own twin:
what is launched on what, in which order, needs no GPU to be right."""

import cluster_twins
import nearness
import pytest
import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import add_norm, cluster_attention, gemma_expert, hidden_layer
from phyai_ros.engine.kernels.fragments import from_groups
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer, Linear, Stream, Vectors
from phyai_ros.engine.quantize import QuantizedWeight, widened

DEVICE = torch.device("cpu")
HEADS, D, WIDTH, MLP, EPS = 2, 64, 128, 256, 1e-6


@pytest.fixture
def twins(monkeypatch):
    cluster_twins.put(monkeypatch)
    monkeypatch.setattr(hidden_layer, "fits", lambda weight: hidden_layer.form(weight) is not None)


@pytest.mark.parametrize(("adaptive", "alone"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("tokens", [2, 50, 64])
def test_against_the_twin(rand, twins, adaptive, tokens, alone):
    at = 70

    def wide(*shape, scale=1.0):
        return rand(*shape, scale=scale).double()

    def weight(out, width):
        return wide(out, width, scale=width**-0.5)

    def vectors():
        scale = 1 + wide(WIDTH, scale=0.2)
        return Vectors(scale, wide(WIDTH), wide(WIDTH)) if adaptive else Vectors(scale)

    layers = [
        Layer(weight((HEADS + 2) * D, WIDTH), weight(WIDTH, HEADS * D), weight(2 * MLP, WIDTH),
              weight(WIDTH, MLP))
        for _ in range(2)
    ]  # fmt: skip
    steps = [[vectors() for _ in range(5)] for _ in range(3)]
    angle = wide(1, tokens, D // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    key, value = (wide(2, 1, 1, at + tokens, D) for _ in range(2))
    exists = torch.rand(1, at + tokens) > 0.2
    enter, leave = (Linear(weight(*s), wide(s[0])) for s in ((WIDTH, 7), (7, WIDTH)))
    second = Linear(weight(WIDTH, WIDTH), wide(WIDTH))
    expert = GemmaExpert(
        layers, tokens=tokens, heads=HEADS, eps=EPS, alone=alone, second=second, dependent=True
    )
    assert expert.takes(at, tokens)
    assert not expert.takes(at, tokens + 1)
    assert not expert.takes(cluster_attention.LONGEST_PREFIX + 1, tokens)
    past = expert.over(key[:, 0, 0], value[:, 0, 0], at=at)
    given = wide(int(alone), WIDTH)
    actions = wide(tokens - len(given), 7)
    made = F.linear(actions, *enter)
    begun = [(torch.cat([given, made]), lambda rows, scale: expert.enter(rows, scale))]
    if not alone:
        begun.append((made, lambda _, scale: expert.enter(actions, scale, enter)))
    before = expert.hidden_layer.before(given)
    rows = hidden_layer.reference(actions, enter, second, given)
    hidden = expert.hidden_layer
    begun.append((rows, lambda _, scale: Stream(*hidden(actions, enter, before, scale))))
    for rows, begin in begun:
        for norms, folded in zip(steps, expert.folded(steps, leave), strict=True):
            h = gemma_expert.reference(
                rows, layers, norms[:-1], key.clone(), value.clone(), exists, cos, sin,
                heads=HEADS, at=at, eps=EPS, alone=alone,
            )  # fmt: skip
            scale, shift, _ = norms[-1]
            h = add_norm.reference(
                h, None, kind="rms", eps=EPS, dtype=h.dtype, scale=scale, shift=shift
            )
            stream = begin(rows, norms[0].scale)
            expert(stream, past, exists[0], cos[0], sin[0], folded.norms)
            found = expert.leave(stream, folded.leave)
            expected = F.linear(h, *leave)[len(given) :]
            nearness.check(found, expected, 1e-5)  # shifts go through in float32


@pytest.mark.parametrize("alone", [False, True])
def test_e4m3_weights_against_the_twin(rand, twins, alone):
    """Rows as bytes from launch to launch, behind a stream that enters as halves; 2 % a product is
    what their rounding makes."""
    tokens, at = 50, 70

    def weight(out, width):
        return QuantizedWeight.of(rand(out, width, scale=width**-0.5).half(), torch.float16)

    def vectors():
        return Vectors(1 + rand(WIDTH, scale=0.2), rand(WIDTH, scale=0.2), rand(WIDTH, scale=0.2))

    layers = [
        Layer(weight((HEADS + 2) * D, WIDTH), weight(WIDTH, HEADS * D), weight(2 * MLP, WIDTH),
              weight(WIDTH, MLP))
        for _ in range(3)
    ]  # fmt: skip
    norms = [vectors() for _ in range(7)]
    angle = rand(1, tokens, D // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    key, value = (rand(3, 1, 1, at + tokens, D).half() for _ in range(2))
    exists = torch.rand(1, at + tokens) > 0.2
    expert = GemmaExpert(layers, tokens=tokens, heads=HEADS, eps=EPS, alone=alone, dependent=True)
    plain = [Layer(*(widened(w).double() for w in vars(x).values())) for x in layers]
    x = rand(tokens, WIDTH)
    expected = gemma_expert.reference(
        x.double(), plain, norms[:-1], key.double(), value.double(), exists, cos, sin, heads=HEADS,
        at=at, eps=EPS, alone=alone,
    )  # fmt: skip
    past = expert.over(key[:, 0, 0], value[:, 0, 0], at=at)
    (folded,) = expert.folded([norms], Linear(rand(7, WIDTH), rand(7)))
    stream = expert.enter(x, norms[0].scale)
    expert(stream, past, exists[0], cos[0], sin[0], folded.norms)
    found = from_groups(stream.groups, tokens)
    assert 1e-3 < (found - expected).norm() / (expected - x).norm() < 0.12
