# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Kernels for Hopper as candidates of the operators: what a table names is taken where it is
offered, and costs nothing where it is refused."""

import pytest
import torch
from emulated_gpu import emulated, needs_compiler

from phyai_ros.engine.kernels import _cuda, attention, fp8_rows
from phyai_ros.engine.kernels._cuda import Attempt, CudaError
from phyai_ros.engine.layers.fp8 import Fp8Operators, Fp8Twins
from phyai_ros.engine.layers.hopper import Hopper, Offered
from phyai_ros.engine.layers.select import FastOperators
from phyai_ros.engine.quantize import E5M2, QuantizedWeight, quantize_rows

__all__ = ["emulated"]
GATED, ATTENTION = "hopper 2x1", "hopper 0x1"


class Table:
    def __init__(self, choice):
        self.choices = type("Always", (), {"get": lambda self, key: choice})()


def operators(monkeypatch, kind, choice):
    """On a CPU, by the emulation."""
    monkeypatch.setattr(kind, "__init__", lambda self: None)
    made = kind()
    made.table, made.dependent, made._tuning, made._hopper = Table(choice), False, False, Hopper()
    return made


@pytest.mark.slow
@needs_compiler
def test_attention_by_the_table(emulated, monkeypatch):
    ops = operators(monkeypatch, FastOperators, ATTENTION)
    q = torch.randn(1, 70, 8, 256).bfloat16()
    key, value = torch.randn(2, 1, 1, 64, 256).bfloat16()
    exists = torch.rand(1, 64) > 0.5
    found = ops.attention(q, key, value, exists=exists)
    plain = super(FastOperators, ops).attention(q, key, value, exists=exists)
    assert (found - plain).abs().max() < 0.05


@pytest.mark.slow
@needs_compiler
def test_gated_products_by_the_table(emulated, monkeypatch):
    x, weight = torch.randn(512, 384).bfloat16(), (torch.randn(512, 384) * 0.1).bfloat16()
    ops = operators(monkeypatch, FastOperators, GATED)
    found = ops.gated_linear(x, weight, "gelu_tanh")
    plain = super(FastOperators, ops).gated_linear(x, weight, "gelu_tanh")
    assert (found - plain).abs().max() < 0.02 * plain.abs().max()


@pytest.mark.slow
@needs_compiler
def test_gated_products_of_e4m3_by_the_table(emulated, monkeypatch):
    """Up to the pass that quantises, which is Triton's."""
    monkeypatch.setattr(fp8_rows, "fused", lambda y, dependent: quantize_rows(y))
    x = quantize_rows(torch.randn(512, 768))
    weight = QuantizedWeight.of(torch.randn(512, 768) * 0.05)
    found = operators(monkeypatch, Fp8Operators, GATED).gated_linear(x, weight, "gelu_tanh")
    plain = Fp8Twins().gated_linear(x, weight, "gelu_tanh").double()
    assert (found.dequantize() - plain).abs().max() < 0.05 * plain.abs().max()


@pytest.mark.slow
@needs_compiler
def test_what_leaves_e5m2_feeds_its_product(emulated, monkeypatch):
    """No pass between; of 24 channels, which torch does not multiply in FP8."""
    monkeypatch.setattr(fp8_rows, "fused", refused)
    ops = operators(monkeypatch, Fp8Operators, GATED)
    x = quantize_rows(torch.randn(512, 768))
    gate_up = QuantizedWeight.of(torch.randn(512, 768) * 0.05)
    down = QuantizedWeight.of(torch.randn(24, 256) * 0.05, rows=E5M2)
    found = ops.gated_branch(x, gate_up, down, "gelu_tanh")
    plain = Fp8Twins().gated_branch(x, gate_up, down, "gelu_tanh")
    assert (found - plain).abs().max() < 0.05 * plain.abs().max()


def refused(*_, **__):
    raise CudaError("no such architecture")


def test_a_refused_kernel_is_told_once(caplog):
    offered = Offered(Attempt("product"), {GATED: refused})

    def run(choice):
        return offered[choice]() if choice in offered else choice

    for _ in range(2):
        assert offered.served(GATED, "library", run) == "library"
    assert caplog.text.count("no such architecture") == 1
    assert offered.served("32x64", "library", run) == "32x64"


@pytest.mark.parametrize("choice", [GATED, "wide 80x2x1", "warpgroups"])
def test_what_is_not_offered_goes_to_the_library(choice):
    assert Offered(Attempt("product"), {}).served(choice, "library", lambda c: c) == "library"


@pytest.mark.parametrize("unseen", ["causal", "own_last", "first_alone"])
def test_attention_that_does_not_see_every_key_is_not_of_these_kernels(monkeypatch, unseen):
    """A long chunk has rows enough for them; they have no such masks."""
    monkeypatch.setattr(_cuda, "is_hopper", lambda device: True)
    q, key = torch.zeros(1, 100, 8, 256).half(), torch.zeros(1, 1, 128, 256).half()
    assert Hopper().attention(q, key, key)
    given = {}
    monkeypatch.setattr(attention, "reference", lambda *_, **options: given.update(options))
    operators(monkeypatch, FastOperators, ATTENTION).attention(q, key, key, **{unseen: True})
    assert given[unseen]


class Processors:
    multi_processor_count = 16


@pytest.mark.parametrize("there", [False, True])
def test_where_there_is_no_hopper_nothing_is_offered(monkeypatch, there):
    """And what is asked for is that which a Hopper would offer."""
    monkeypatch.setattr(_cuda, "is_hopper", lambda device: there)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Processors)
    hopper, weight = Hopper(), torch.zeros(1024, 448).half()
    for rows in (100, 600):  # some, many
        assert bool(hopper.gated(torch.zeros(rows, 448).half(), weight)) == there
    assert bool(hopper.parts(torch.zeros(100, 448).half(), weight)) == there
    q, key = torch.zeros(1, 100, 8, 256).half(), torch.zeros(1, 1, 90, 256).half()
    assert bool(hopper.attention(q, key, key)) == there
    q = torch.zeros(1, 256, 2, 64).half()
    key = q.transpose(1, 2)
    assert bool(hopper.attention(q, key, key)) == there
    x, quantised = quantize_rows(torch.zeros(600, 768)), QuantizedWeight.of(torch.ones(512, 768))
    assert bool(hopper.gated_fp8(x.values, quantised.values)) == there


def test_what_was_not_written_for_a_shape_is_not_offered(monkeypatch):
    monkeypatch.setattr(_cuda, "is_hopper", lambda device: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Processors)
    hopper, x = Hopper(), torch.zeros(600, 440).half()
    assert not hopper.gated(x, torch.zeros(1024, 440).half())
    assert not hopper.gated(x[:100], torch.zeros(1024, 440).half())
    assert not hopper.parts(x, torch.zeros(1024, 440).half())
    q, key = torch.zeros(1, 100, 8, 256).half(), torch.zeros(1, 1, 60, 256).half()
    assert not hopper.attention(q, key, key)
    few = quantize_rows(torch.zeros(100, 768))
    assert not hopper.gated_fp8(few.values, QuantizedWeight.of(torch.ones(512, 768)).values)
