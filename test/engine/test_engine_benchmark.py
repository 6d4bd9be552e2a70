# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the engine's benchmark counts, judges and draws."""

import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import engine_model
import engine_plot
import engine_roofs


def test_a_stage_costs_its_products_and_the_weights_that_they_read():
    model = torch.nn.Linear(8, 16, bias=False)
    q = torch.randn(1, 2, 3, 4)

    def stages(x):
        yield "twice", model(model.weight.new_ones(5, 8)) + model(x)
        yield "attention", F.scaled_dot_product_attention(q, q, q)
        yield "nothing", x + 1

    found = engine_roofs.costs(model, stages, torch.ones(5, 8))
    assert found["twice"]["TFLOP"] == pytest.approx(2 * 2 * 5 * 8 * 16 / 1e12)
    assert found["twice"]["GB"] == pytest.approx(2 * 8 * 16 * 4 / 1e9)  # read each time
    assert found["nothing"] == {"TFLOP": 0.0, "GB": 0.0}
    assert list(found) == ["twice", "attention", "nothing"]


def test_the_roof_is_the_longer_of_products_and_reading():
    roofs = {"roof_bf16_TFLOP_s": 800, "roof_fp8_TFLOP_s": 1600, "roof_copy_TB_s": 4.0}
    cost = {"prefix": {"TFLOP": 1.6, "GB": 4.0}, "solver": {"TFLOP": 0.4, "GB": 8.0}}
    found = engine_roofs.fractions(cost, {"prefix": 4.0, "solver": 4.0}, roofs)
    assert (found["prefix"]["roof_ms"], found["prefix"]["bound"]) == (2.0, "products")
    assert (found["solver"]["roof_ms"], found["solver"]["bound"]) == (2.0, "memory")
    assert found["solver"]["reached"] == 0.5
    assert engine_roofs.fractions(cost, {"prefix": 4.0, "solver": 4.0}, roofs, True)["prefix"][
        "roof_ms"
    ] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        ({}, True),
        ({"p50_ms": 11.01}, False),
        ({"fused_vs_reference": float("nan")}, False),
    ],
)
def test_a_row_is_judged_by_every_bound(found, passed):
    row = {"work": "pi05_48", "p50_ms": 10.9, "fused_vs_reference": 1e-4} | found
    engine_model.judge(row)
    assert row["wanted"] == {"fused_vs_reference": 3e-2, "p50_ms": 11.0}
    assert row["passed"] is passed


def test_where_no_time_is_wanted_the_error_is_bounded():
    for error, passed in ((2.9e-2, True), (3.1e-2, False)):
        row = {"work": "pi0_48_fp8", "p50_ms": 99.0, "fused_vs_reference": error}
        engine_model.judge(row)
        assert row["passed"] is passed


def test_bars_are_of_the_newest_rows(tmp_path):
    stages = {f"{s}_p50_ms": 1.0 for s in engine_plot.STAGES}
    rows = [
        {"work": "pi05_48", "p50_ms": 4.0, "gpu": "a GPU", **stages},
        {"work": "pi05_48", "p50_ms": 3.0, "gpu": "a GPU", "wanted": {"p50_ms": 11}, **stages},
        {"work": "request", "whole_p50_ms": 9.0},
    ]
    assert engine_plot.newest(rows)["pi05_48"]["p50_ms"] == 3.0
    engine_plot.draw(rows, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5000
