# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert of pi0 and pi0.5 inside its model, in clusters and layer by layer, captured and
not. Needs a Hopper GPU."""

import sys
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

import hopper
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
)

from phyai_ros.engine import solver
from phyai_ros.engine.kernels import gemma_expert
from phyai_ros.engine.layers.clusters import CLUSTERS
from phyai_ros.engine.models.paligemma.family import storage_dtype
from phyai_ros.engine.models.pi0.model import Pi0
from phyai_ros.engine.models.pi05.model import Pi05
from phyai_ros.engine.rtc import RtcTrained
from phyai_ros.engine.runner import Runner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import synthetic


def flow(family, tokens, batch=1):
    """An adapter of published widths, a few layers deep, in 16 bit."""
    published = synthetic.published()
    config = replace(
        published,
        vision=replace(published.vision, depth=1),
        language=replace(published.language, depth=3, vocabulary=512),
        expert=replace(published.expert, depth=3),
    )
    made = {"pi0": Pi0, "pi05": Pi05}[family]
    model = synthetic._fill(made, config, DEVICE, lambda n: storage_dtype(n, torch.bfloat16))
    inputs = synthetic.flow_inputs(DEVICE, tokens, batch)
    inputs = replace(inputs, tokens=inputs.tokens % 512)
    inputs.token_mask[:, tokens - tokens // 4 :] = False
    spec = replace(synthetic._spec(family, 50, 32, 10), guidance_methods=("rtc_identity", "seam"))
    return synthetic.SyntheticAdapter(spec, model, "flow_backward", inputs, (50, 32))


def runner(adapter, choice=CLUSTERS, device=DEVICE):
    """``hopper.runner`` that measures nothing."""
    made, asked = hopper.runner(adapter, choice, device)
    made.operators.tuning = nullcontext
    return made, asked


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("tokens", [4, 48, 200])
@pytest.mark.parametrize("family", ["pi0", "pi05"])
def test_in_the_model(family, tokens):
    adapter = flow(family, tokens)
    noise = torch.randn(adapter.noise_shape(1))
    made, _ = runner(adapter)
    made.capture(NOTHING)
    uncaptured, asked = runner(adapter)
    eager = answer(uncaptured, noise)
    kernels = uncaptured.model.expert.clusters.kernels
    assert kernels is not None
    assert (kernels.hidden_layer is not None) == (family == "pi0")
    assert len(asked) == 10
    for _ in range(20):
        assert torch.equal(answer(made, noise), eager)  # a replay gives the eager run's bits
    assert made.replayed == 20
    by_layers = answer(runner(adapter, "library")[0], noise)
    reference = answer(Runner(adapter, DEVICE, "reference"), noise)
    adapter.model.float()
    exact = answer(Runner(adapter, DEVICE, "reference"), noise)
    largest = exact.abs().max()
    own = (reference - exact).abs().max() / largest
    print("reference", float(own), "by layers", float((by_layers - exact).abs().max() / largest))
    assert (eager - exact).abs().max() / largest < max(1.5 * own, 1e-3)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize(("family", "kind"), [("pi0", "gemma"), ("pi05", "fp8 gemma")])
def test_fp8_in_the_model(family, kind):
    """In clusters and layer by layer, where norms leave E4M3 rows and add raw products. pi0's
    expert stays in 16 bits."""
    adapter = flow(family, 48)
    noise = torch.randn(adapter.noise_shape(1))
    plain = answer(Runner(adapter, DEVICE, "reference"), noise)
    synthetic.quantised(adapter, DEVICE)
    made, asked = runner(adapter)
    made.capture(NOTHING)
    uncaptured, _ = runner(adapter)
    eager = answer(uncaptured, noise)
    assert uncaptured.model.expert.clusters.kernels is not None
    assert asked
    assert all(key.startswith(f"{kind} expert ") for key in asked if "expert" in key)
    for _ in range(20):
        assert torch.equal(answer(made, noise), eager)
    by_layers = answer(runner(adapter, "library")[0], noise)
    emulated = answer(Runner(adapter, DEVICE, "reference"), noise)
    for found in (emulated, eager, by_layers):
        assert 1e-4 < (found - plain).abs().max() / plain.abs().max() < 3e-2
    assert not torch.equal(eager, by_layers)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("fp8", [False, True])
def test_decided_rows_are_replayed_too(fp8):
    adapter = flow("pi05", 48)
    adapter.model.config = replace(adapter.model.config, trained_delay=4)
    adapter.spec = replace(adapter.spec, guidance_methods=("rtc_trained",))
    if fp8:
        synthetic.quantised(adapter, DEVICE)
    noise, target = (torch.randn(adapter.noise_shape(1)) for _ in range(2))
    guide = RtcTrained(target, torch.arange(50)[None] < 3)
    made, _ = runner(adapter)
    made.capture(NOTHING)
    found = answer(made, noise, guide)
    assert made.replayed == 1
    torch.testing.assert_close(found[:3], target[0, :3], rtol=0, atol=0)
    expected = answer(Runner(adapter, DEVICE, "reference"), noise, guide)
    bound = 3e-2 if fp8 else 2e-3
    assert (found - expected).abs().max() < bound * expected.abs().max()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@needs_hopper
@pytest.mark.cuda
def test_a_device_that_is_not_current():
    """Its kernels are loaded there, whatever the current one is."""
    adapter = flow("pi05", 48)
    noise = torch.randn(adapter.noise_shape(1))
    expected = answer(runner(adapter)[0], noise)
    other = torch.device("cuda:1")
    adapter.model.to(other)
    inputs = adapter.inputs
    adapter.inputs = replace(
        inputs, **{f.name: getattr(inputs, f.name).to(other) for f in fields(inputs)}
    )
    made, _ = runner(adapter, device=other)
    made.capture(NOTHING)
    for _ in range(3):
        assert torch.equal(answer(made, noise), expected)
    assert made.replayed == 3
    assert made.model.expert.clusters.kernels is not None


@needs_hopper
@pytest.mark.cuda
def test_eager_requests_one_behind_the_other():
    adapter = flow("pi0", 48)
    given = adapter.inputs
    others = [replace(given, images=given.images.roll(i, -1)) for i in range(6)]
    check_requests_one_behind_the_other(adapter, others, runner)


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("family", ["pi0", "pi05"])
def test_guided_requests(family):
    adapter = flow(family, 48)
    noise = torch.randn(adapter.noise_shape(1))
    target, weights = torch.randn_like(noise), torch.rand_like(noise)
    made, asked = runner(adapter)
    made.capture(NOTHING)
    reference = Runner(adapter, DEVICE, "reference")
    for guide in (solver.RtcIdentity(target, weights), solver.Seam(target, weights)):
        found, expected = answer(made, noise, guide), answer(reference, noise, guide)
        assert (found - expected).abs().max() / expected.abs().max() < 3e-2
    assert made.replayed == 2
    assert asked


@needs_hopper
@pytest.mark.cuda
@pytest.mark.parametrize("family", ["pi0", "pi05"])
def test_batches_go_layer_by_layer(family):
    adapter = flow(family, 48, batch=2)
    made, asked = runner(adapter)
    noise = torch.randn(adapter.noise_shape(2))
    found, expected = (answer(r, noise) for r in (made, Runner(adapter, DEVICE, "reference")))
    assert (found - expected).abs().max() / expected.abs().max() < 3e-2
    assert not asked


@needs_hopper
@pytest.mark.cuda
def test_pi0s_state_counts_for_as_much_as_it_should():
    """Few words and no image, so that the state is one of few keys: what becomes of the actions
    when it is another."""
    adapter = flow("pi0", 48)
    inputs = adapter.inputs
    inputs.image_mask[:] = False
    inputs.token_mask[:, 4:] = False
    noise = torch.randn(adapter.noise_shape(1))
    made = {choice: runner(adapter, choice)[0] for choice in (CLUSTERS, "library")}
    made["reference"] = Runner(adapter, DEVICE, "reference")
    moved = {}
    for name, of in made.items():
        adapter.inputs = inputs
        before = answer(of, noise)
        adapter.inputs = replace(inputs, state=-inputs.state)
        moved[name] = answer(of, noise) - before
    expected = moved.pop("reference")
    assert expected.abs().max() > 2e-2
    for found in moved.values():
        nearness.check(found, expected, 0.2)


@needs_hopper
@pytest.mark.cuda
def test_a_compiler_that_fails_is_told_once_and_costs_nothing(monkeypatch, caplog):
    adapter = flow("pi05", 48)
    check_a_refused_compiler(monkeypatch, caplog, adapter, gemma_expert, "ClusterAttention", runner)
