# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert in clusters, each launch by its kernel's twin, against the expert's own twin:
what is launched on what, in which order, needs no GPU to be right."""

import nearness
import pytest
import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    add_norm,
    cluster_attention,
    cluster_product,
    gemma_expert,
    regroup,
    stream_linear,
)
from phyai_ros.engine.kernels.fragments import into_fragments, into_groups
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer, Linear, Vectors

DEVICE = torch.device("cpu")
HEADS, D, WIDTH, MLP, EPS = 2, 64, 128, 256, 1e-6


class ProductTwin:
    def __init__(self, weight, form, *, dependent):
        self.weight, self.form = weight, form

    def __call__(self, source, *, rows, out, key=None, value=None, **given):
        found = cluster_product.reference(source, self.weight, self.form, rows=rows, **given)
        if self.form.epilogue == "residual":
            given["x"].copy_(into_groups(found[0]))
            out.copy_(into_fragments(found[1]))
            return
        out.copy_(into_fragments(found[0]))
        if self.form.epilogue == "rope":
            key[:rows], value[:rows] = found[1:]


class AttentionTwin:
    def __init__(self, key, value, *, at, rows, dependent):
        self.cache, self.sizes = (key, value), {"at": at, "rows": rows}

    def __call__(self, q, exists, *, out):
        out.copy_(cluster_attention.reference(q, *self.cache, exists, **self.sizes))


@pytest.fixture
def twins(monkeypatch):
    for name, twin in (("ClusterProduct", ProductTwin), ("ClusterAttention", AttentionTwin)):
        monkeypatch.setattr(gemma_expert, name, twin)
    monkeypatch.setattr(cluster_attention, "fits", lambda d, *_: d == D)

    def no_options(twin):
        return lambda *given, dependent: twin(*given)

    for module in (regroup, stream_linear):
        monkeypatch.setattr(module, "fused_into", no_options(module.reference_into))
    monkeypatch.setattr(stream_linear, "fused_out", no_options(stream_linear.reference_out))


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("tokens", [1, 50, 64])
def test_against_the_twin(rand, twins, adaptive, tokens):
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
    expert = GemmaExpert(layers, tokens=tokens, heads=HEADS, eps=EPS, dependent=True)
    assert expert.takes(at, tokens)
    assert not expert.takes(at, tokens + 1)
    assert not expert.takes(cluster_attention.LONGEST_PREFIX + 1, tokens)
    past = expert.over(key[:, 0, 0], value[:, 0, 0], at=at)
    actions = wide(tokens, 7)
    rows = F.linear(actions, *enter)
    for norms, folded in zip(steps, expert.folded(steps, leave), strict=True):
        h = gemma_expert.reference(
            rows, layers, norms[:-1], key.clone(), value.clone(), exists, cos, sin, heads=HEADS,
            at=at, eps=EPS,
        )  # fmt: skip
        scale, shift, _ = norms[-1]
        h = add_norm.reference(
            h, None, kind="rms", eps=EPS, dtype=h.dtype, scale=scale, shift=shift
        )
        for given in ((actions, enter), (rows,)):
            stream = expert.enter(*given)
            expert(stream, past, exists[0], cos[0], sin[0], folded.norms)
            found = expert.leave(stream, folded.leave)
            nearness.check(found, F.linear(h, *leave), 1e-5)  # shifts go through in float32
