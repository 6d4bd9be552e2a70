# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""FP8 policies, emulated on a CPU: what is quantised, how far actions move, what is refused."""

import inspect
import logging
from dataclasses import replace

import gr00t_case
import pi_cases
import pytest
import torch
from golden import GOLDEN, needs_golden, relative_error, tensors
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine import quantize, rtc, solver
from phyai_ros.engine.kernels import fp8_norm
from phyai_ros.engine.layers.fp8 import Fp8Twins, select_fp8
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.model import GrootModel
from phyai_ros.engine.models.paligemma.config import GEMMA_VARIANTS, FlowConfig, SiglipConfig
from phyai_ros.engine.models.pi0.model import Pi0
from phyai_ros.engine.models.pi05.model import Pi05
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.quantize import E4M3, E5M2, Fp8Plan, QuantizedWeight, in_e5m2, quantize_rows
from phyai_ros.engine.types import PolicyError

CPU = torch.device("cpu")


def test_a_number_is_rounded_to_its_nearest_neighbour():
    x = torch.randn(5, 300).double()
    made = quantize_rows(x)
    assert made.values.dtype == E4M3
    torch.testing.assert_close(made.scale, x.abs().amax(1).float() / 448)
    away = (made.dequantize(torch.float64) - x).abs()
    # Half a step of a 3-bit mantissa, or of the subnormal numbers below 2^-6.
    most = torch.maximum(x.abs() / 16, made.scale.double()[:, None] * 2.0**-10)
    assert (away <= 1.001 * most).all()
    assert not quantize_rows(torch.zeros(2, 8)).dequantize().any()


class AsTheKernels(Fp8Twins):
    """Norms are given what the kernel takes, which stands only where there is a GPU."""

    def add_norm(self, x, branch, **options):
        if options["dtype"] == E4M3:
            inspect.signature(fp8_norm.fused).bind(x, branch, **options)
        return super().add_norm(x, branch, **options)


def test_an_e5m2_number_has_no_scale():
    x = torch.randn(5, 300).double() * torch.tensor([1e-3, 1.0, 1e2, 1e4, 1e6])[:, None]
    made = quantize_rows(x, E5M2)
    assert made.scale is None
    away = (made.dequantize(torch.float64) - x.clamp(-57344, 57344)).abs()
    # Half a step of a 2-bit mantissa, or of the subnormal numbers below 2^-14.
    most = torch.maximum(x.abs() / 8, torch.tensor(2.0**-17))
    assert (away <= 1.001 * most).all()
    edges = torch.tensor([57344, 61440, 65504, 1e9, torch.inf, 1.125, 1.375, 2.0**-17, 2.0**-16])
    expected = [57344, 57344, 57344, 57344, 57344, 1.0, 1.5, 0, 2.0**-16]  # ties go to even
    for sign in (1, -1):
        assert (sign * in_e5m2(sign * edges).float()).tolist() == expected
    assert in_e5m2(torch.tensor([torch.nan])).isnan().all()
    weight = QuantizedWeight.of(torch.randn(32, 300), rows=E5M2)
    found = F.linear(x.float(), torch.cat([weight, weight])[32:])
    torch.testing.assert_close(found, made.dequantize() @ weight.dequantize().t())


def test_a_channels_largest_is_the_upper_half_of_what_e4m3_has():
    weight = torch.randn(500, 64) * torch.exp2(4 * torch.randn(500, 1))
    weight[0] = 448 * torch.arange(64) / 63  # it is the largest number itself
    most = QuantizedWeight.of(weight).values.float().abs().amax(1)
    assert most[0] == 224
    assert most.min() == 224
    assert 400 < most.max() <= 448


def test_a_quantised_weight_stands_for_its_layer():
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 32), torch.randn(3, 7, 64)
    exact = layer(x)
    weight = QuantizedWeight.of(layer.weight)
    found = F.linear(x, weight, layer.bias)
    assert 0 < (found - exact).norm() / exact.norm() < 0.05
    both = torch.cat([weight, weight])
    assert both.shape == (64, 64)
    torch.testing.assert_close(F.linear(x, both[32:]), F.linear(x, weight))


def test_gradients_pass_through_the_rounding():
    weight = QuantizedWeight.of(torch.randn(8, 16))
    x = torch.randn(2, 16, requires_grad=True)
    F.linear(x, weight).sum().backward()
    torch.testing.assert_close(x.grad, weight.dequantize().sum(0).expand(2, -1))


def test_every_layer_is_in_one_list():
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    with pytest.raises(PolicyError, match="'b' must be in one list"):
        quantize.quantize(model, Fp8Plan(("a",), {}))
    with pytest.raises(PolicyError, match="'a' must be in one list"):
        quantize.quantize(model, Fp8Plan((".",), {"a": "kept"}))
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    before = quantize.size(model)
    assert quantize.quantize(model, Fp8Plan(("a",), {"b": "kept"})) == 1
    assert quantize.quantized(model)
    assert quantize.size(model) == before - 4 * 16 + 16 + 5 * 4


def published(family):
    if family == "gr00t_n17":
        return GrootModel(GrootConfig.parse({}, "published"))
    sizes = FlowConfig(SiglipConfig(), GEMMA_VARIANTS["gemma_2b"], GEMMA_VARIANTS["gemma_300m"])
    return {"pi0": Pi0, "pi05": Pi05}[family](sizes)


@pytest.mark.parametrize("family", ["pi0", "pi05", "gr00t_n17"])
def test_every_layer_of_the_published_sizes_is_planned(family):
    with torch.device("meta"):
        model = published(family)
    before = quantize.size(model)
    assert quantize.quantize(model, model.fp8) > 30
    assert quantize.size(model) < before


@needs_golden
@pytest.mark.parametrize(("fixture", "case"), pi_cases.names(end_to_end=True)[:4])
def test_pi_actions_stay_near_float32(fixture, case):
    observation, arrays = pi_cases.observation(fixture, case), tensors(fixture, case)
    noise = arrays["e2e.noise"]
    policy = load_policy(GOLDEN / fixture, dtype="fp8")
    exact = load_policy(GOLDEN / fixture).infer(observation, noise)
    found = policy.infer(observation, noise)
    error = relative_error(torch.from_numpy(found.normalised), torch.from_numpy(exact.normalised))
    assert 1e-5 < error < 0.08  # models of a few dozen channels, of random weights


def test_pi0_has_the_mlps_of_its_language_model_alone_in_fp8():
    """More of it moves its actions further than pi0.5's, and than is allowed."""
    with torch.device("meta"):
        model = published("pi0")
    quantize.quantize(model, model.fp8)
    last = f"language.layers.{len(model.language.layers) - 1}."
    found = {
        n
        for n, m in model.named_modules()
        if isinstance(getattr(m, "weight", None), QuantizedWeight)
    }
    assert found == {
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and name.startswith("language.")
        and ".mlp." in name
        and not name.startswith(last)
    }


@needs_golden
def test_what_reads_fp8_products_follows_them():
    model = load_policy(GOLDEN / "pi05", dtype="fp8").adapter.model
    attention = model.language.layers[0].attention
    assert attention.qkv.weight.dtype == attention.output.weight.dtype == torch.bfloat16
    assert isinstance(attention.qkv.weight, QuantizedWeight)
    assert isinstance(model.image.layers[0].qkv.weight, nn.Parameter)
    assert attention.qkv.weight.rows == E4M3
    assert isinstance(attention.output.weight, nn.Parameter)
    assert model.language.layers[0].mlp.down.weight.rows == E5M2
    down = model.expert.layers[0].mlp.down.weight
    assert isinstance(down, QuantizedWeight)
    assert down.dtype == torch.float16  # as clusters and keys and values have it
    assert model.language.layers[-1].mlp.down.weight is None  # never read
    assert isinstance(model.language.layers[-1].attention.qkv.weight, QuantizedWeight)


@needs_golden
def test_the_fused_form_is_the_emulated_one():
    """With the operators' twins: the norms' rows are quantised before they are rounded to 16 bit,
    so the two differ by that."""
    fixture, case = next(n for n in pi_cases.names(end_to_end=False) if n[0] == "pi05")
    model = load_policy(GOLDEN / fixture, dtype="fp8").adapter.model
    arrays = tensors(fixture, case)
    batch = pi_cases.inputs(arrays, model.config.state_width)
    steps = pi_cases.meta(fixture, case)["num_steps"]
    plain, _ = pi_cases.sample(model, batch, arrays["noise"], steps)
    fused, _ = pi_cases.sample(model.fused(AsTheKernels()), batch, arrays["noise"], steps)
    assert relative_error(fused, plain) < 0.04
    assert type(select_fp8(CPU, torch.bfloat16)) is Fp8Twins


@needs_golden
@torch.no_grad()
def test_the_experts_operators_where_some_rows_are_committed():
    """Norms that pick between two scales leave 16 bits, not E4M3 rows, and add whole products."""
    model = load_policy(GOLDEN / "pi05", dtype="fp8").adapter.model
    model.config = replace(model.config, trained_delay=4)
    arrays = tensors("pi05", "case1")
    batch = pi_cases.inputs(arrays, model.config.state_width)
    x, steps = arrays["noise"], 5
    target = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    committed = torch.arange(x.shape[1]) < torch.tensor([[3], [0]])
    found = []
    for form in (model, model.fused(AsTheKernels())):
        prefix = form.commit(form.prefix(batch, form.vision(batch)), committed)
        constants = form.constants(steps)

        def predict(z, i, form=form, prefix=prefix, constants=constants):
            return form.predict(z, i, prefix, constants)

        guide = rtc.RtcTrained(target, committed)
        found.append(solver.flow_backward(predict, x, steps, guide))
    assert relative_error(found[1], found[0]) < 0.05


@needs_golden
@pytest.mark.parametrize("case", ["case0", "case3"])
def test_groots_fused_form_is_the_emulated_one(case):
    """And so near float32 as its few dozen channels allow."""
    model, arrays = gr00t_case.load_model(), tensors(gr00t_case.FIXTURE, case)
    steps = gr00t_case.case_info(case)["num_steps"]
    inputs = gr00t_case.inputs_of(model, arrays)
    assert quantize.quantize(model, model.fp8) > 10
    plain, fused = (
        gr00t_case.sample(form, inputs, arrays["noise"], steps)
        for form in (model, model.fused(AsTheKernels()))
    )
    assert relative_error(fused, plain) < 1e-4
    assert 1e-4 < relative_error(plain, arrays["actions"]) < 0.08


@needs_golden
def test_what_cannot_is_refused_and_emulation_is_said(caplog):
    with pytest.raises(PolicyError, match="smolvla has no FP8 form"):
        load_policy(GOLDEN / "smolvla", dtype="fp8")
    with caplog.at_level(logging.WARNING):
        load_policy(GOLDEN / "pi05", dtype="fp8")
    assert "emulated on a CPU" in caplog.text
