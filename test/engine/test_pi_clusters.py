# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The fixtures of pi0 and pi0.5 with the expert in clusters, each launch by its kernel's twin: what
is launched on what inside the model needs no GPU to be right."""

import cluster_twins
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors
from test_batch_cuda import observations

from phyai_ros.engine import solver
from phyai_ros.engine.kernels import cluster_product, gemma_forms, hidden_layer
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert
from phyai_ros.engine.layers.clusters import CLUSTERS
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.policy import load_policy

pytestmark = needs_golden


class InClusters(Operators):
    """Takes clusters wherever they are a candidate. asked: the names it was asked for."""

    def __init__(self):
        self.asked = []

    def gemma_expert(self, layers, **sizes):
        return GemmaExpert(layers, dependent=False, **sizes)

    def chosen(self, key, candidates):
        assert set(candidates) == {CLUSTERS, "library"}
        self.asked.append(key)
        return CLUSTERS


@pytest.fixture
def operators(monkeypatch):
    """The fixtures' experts are narrower than any tile of a kernel."""
    cluster_twins.put(monkeypatch)
    monkeypatch.setattr(cluster_product.Form, "fits", lambda _: True)
    deep = 1 << 20
    for module, deepest in ((gemma_forms, {"rms": deep, "": deep}), (hidden_layer, deep)):
        monkeypatch.setattr(module, "_DEEPEST", deepest)
    return InClusters()


def launched(operators, fixture, batch, steps, horizon):
    """As many times as there are steps, of one request, and under the right name."""
    rows = horizon if fixture.startswith("pi05") else 1 + horizon  # pi0's state is one
    assert len(operators.asked) == (steps if batch == 1 else 0)
    assert all(f" B1 T{rows} " in key for key in operators.asked)


def sampled(operators, fixture, case, dtype):
    model = load_policy(GOLDEN / fixture, dtype=dtype).adapter.model
    arrays, steps = tensors(fixture, case), pi_cases.meta(fixture, case)["num_steps"]
    batch = pi_cases.inputs(arrays, model.config.state_width)
    _, trace = pi_cases.sample(model.fused(operators), batch, arrays["noise"], steps)
    launched(operators, fixture, len(arrays["noise"]), steps, arrays["noise"].shape[1])
    return trace[:, -1], arrays


@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=False))
def test_float32(operators, fixture, case):
    actions, arrays = sampled(operators, fixture, case, "float32")
    assert relative_error(actions, arrays["actions"]) < 1e-5


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(False, pi_cases.LEROBOT))
def test_bfloat16(operators, fixture, case, clusters):
    """Off by no more than 1.25 times the reference's own error, by operators and in clusters."""
    if clusters:
        actions, arrays = sampled(operators, fixture, case, "bfloat16")
    else:
        model = load_policy(GOLDEN / fixture, dtype="bfloat16").adapter.model
        arrays, steps = tensors(fixture, case), pi_cases.meta(fixture, case)["num_steps"]
        batch = pi_cases.inputs(arrays, model.config.state_width)
        _, trace = pi_cases.sample(model.fused(Operators()), batch, arrays["noise"], steps)
        actions = trace[:, -1]
    own = (arrays["actions_bf16"] - arrays["actions"]).abs().max()
    assert (actions - arrays["actions"]).abs().max() <= 1.25 * own


@pytest.mark.parametrize("guide", ["rtc_identity", "seam"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("fixture", pi_cases.LEROBOT)
@torch.no_grad()
def test_guided(operators, fixture, batch, guide):
    """Requests of different words and images, padded to one length, with elementwise guidance:
    by operators and in clusters what the model's own path gives."""
    policy = load_policy(GOLDEN / fixture)
    adapter, spec = policy.adapter, policy.spec
    inputs = adapter.prepare(observations(spec)[:batch])
    generator = torch.Generator().manual_seed(3)
    shape = adapter.noise_shape(batch)
    noise, target = (torch.randn(shape, generator=generator) for _ in range(2))
    weights = torch.rand(shape[:2], generator=generator)[..., None]
    made = {"rtc_identity": solver.RtcIdentity, "seam": solver.Seam}[guide](target, weights)
    steps = spec.denoising_steps

    def answer(model):
        prefix = model.prefix(inputs, model.vision(inputs))
        constants = model.constants(steps)
        return solver.flow_backward(
            lambda x, i: model.predict(x, i, prefix, constants), noise, steps, made
        )

    expected = answer(adapter.model)
    for ops in (Operators(), operators):
        assert relative_error(answer(adapter.model.fused(ops)), expected) < 1e-5
    launched(operators, fixture, batch, steps, spec.horizon)
