# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert in clusters, each launch by its kernel's twin, against the expert's own twin:
what is launched on what, in which order, needs no GPU to be right."""

import nearness
import pytest
import torch

from phyai_ros.engine.kernels import cluster_attention, cluster_product, gemma_expert, regroup
from phyai_ros.engine.kernels.fragments import into_fragments, into_groups
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer, Vectors

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
    monkeypatch.setattr(
        regroup, "fused_into", lambda x, dtype, **_: regroup.reference_into(x, dtype)
    )
    monkeypatch.setattr(regroup, "fused_from", lambda x, rows, **_: regroup.reference_from(x, rows))


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
    steps = [[vectors() for _ in range(4)] for _ in range(3)]
    x, angle = wide(tokens, WIDTH), wide(1, tokens, D // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))
    key, value = (wide(2, 1, 1, at + tokens, D) for _ in range(2))
    exists = torch.rand(1, at + tokens) > 0.2
    expert = GemmaExpert(layers, tokens=tokens, heads=HEADS, eps=EPS, dependent=True)
    assert expert.takes(at, tokens)
    assert not expert.takes(at, tokens + 1)
    assert not expert.takes(cluster_attention.LONGEST_PREFIX + 1, tokens)
    past = expert.over(key[:, 0, 0], value[:, 0, 0], at=at)
    for norms, folded in zip(steps, expert.folded(steps), strict=True):
        expected = gemma_expert.reference(
            x, layers, norms, key.clone(), value.clone(), exists, cos, sin, heads=HEADS, at=at,
            eps=EPS,
        )  # fmt: skip
        found = expert(x, past, exists[0], cos[0], sin[0], folded)
        nearness.check(found, expected, 1e-5)  # shifts go through the weights in float32
