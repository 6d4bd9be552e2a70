# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the engine's benchmark counts, judges and draws."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from phyai_ros.engine.types import Observation

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import engine_model
import engine_plot
import engine_request
import engine_roofs
import full_size
import record

GOOD = {
    "work": "pi05_48", "batch": 1, "p50_ms": 10.9, "fused_vs_reference": 1e-4,
    "graphed_vs_fused": 0.0, "buckets": 2, "runs": 60, "replayed": 60,
}  # fmt: skip


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
        ({"graphed_vs_fused": 1e-9}, False),
        ({"graphed_vs_fused": float("nan")}, False),
        ({"buckets": 0}, False),
        ({"replayed": 59}, False),
        ({"requests": 1000, "long_replayed": 1000}, True),
        ({"requests": 1000, "long_replayed": 999}, False),
    ],
)
def test_a_row_is_judged_by_every_bound(found, passed):
    row = GOOD | found
    engine_model.judge(row)
    wanted = {"fused_vs_reference": 3e-2, "p50_ms": 11.0, "graphed_vs_fused": 0.0, "buckets": 1,
              "replayed": 60}  # fmt: skip
    wanted |= {"long_replayed": 1000} if "requests" in found else {}
    assert row["wanted"] == wanted
    assert row["passed"] is passed


def test_where_no_time_is_wanted_the_error_is_bounded():
    for error, passed in ((2.9e-2, True), (3.1e-2, False)):
        row = GOOD | {"work": "pi0_48_fp8", "p50_ms": 99.0, "fused_vs_reference": error}
        engine_model.judge(row)
        assert row["passed"] is passed


def test_many_requests_may_differ_from_the_run_before_their_operators_were_measured():
    row = GOOD | {"work": "pi05_48_b32_fp8", "batch": 32, "graphed_vs_fused": 5e-3}
    engine_model.judge(row)
    assert row["passed"]
    assert "graphed_vs_fused" not in row["wanted"]


class Engine:
    """Takes a runner's and a policy's place. replays: 1 for a request that is replayed, 0 for one
    that runs eagerly, in turns."""

    def __init__(self, *replays):
        self._replays, self._asked, self.replayed, self.runner = replays, 0, 0, self

    def run(self, observations, noise):
        self.replayed += self._replays[self._asked % len(self._replays)]
        self._asked += 1
        return [SimpleNamespace(stages=dict.fromkeys(engine_model.STAGES, 1e-3))]

    def infer(self, observation):
        return self.run([observation], None)[0]


@pytest.mark.parametrize(("replays", "replayed"), [((1,), 8), ((0,), 0), ((1, 0), 4)])
def test_timed_requests_that_were_replayed_are_counted(replays, replayed):
    times, found = engine_model.measure(Engine(*replays), [None], None, 8)
    assert (len(times), found) == (8, replayed)
    given = [Observation({"camera": np.zeros((2, 2, 3), np.uint8)}, np.zeros(1), "")]
    row = engine_request.measure(Engine(*replays), given, lambda image: image, 8, warm=3)
    assert (row["requests"], row["replayed"]) == (8, replayed)


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        ({}, True),
        ({"outside_model_p50_ms": 0.61}, False),
        ({"p99_over_p50": 1.04}, False),
        ({"replayed": 999}, False),
        ({"ordinary_replayed": 249}, False),
        ({"buckets": 0}, False),
    ],
)
def test_a_whole_request_is_timed_where_it_is_replayed(found, passed):
    row = {
        "outside_model_p50_ms": 0.5, "p99_over_p50": 1.01, "buckets": 14, "requests": 1000,
        "replayed": 1000, "ordinary_replayed": 250, "ordinary_memory": {"requests": 250},
    } | found  # fmt: skip
    engine_request.judge(row)
    assert row["passed"] is passed


@pytest.mark.parametrize(
    ("device", "found", "passed"),
    [
        ("cuda", {}, True),
        ("cuda:0", {"buckets": 0}, False),
        ("cuda", {"fp8_buckets": 0}, False),
        ("cuda", {"fp8_memory_GB": 6.1}, False),
        ("cuda", {"memory_GB": 9.1}, False),
        ("cuda", {"configure_s": 31.0}, False),
        ("cuda", {"host_beyond_model_gb": 2.1}, False),
        ("cuda", {"parameters": 2e9}, False),
        ("cpu", {"buckets": 0}, True),  # there is nothing to capture there
    ],
)
def test_the_published_sizes_are_judged_by_every_bound(device, found, passed):
    row = {
        "family": "pi05", "parameters": 3.3e9, "host_beyond_model_gb": 1.0, "configure_s": 20.0,
        "memory_GB": 8.0, "buckets": 14,
    }  # fmt: skip
    if device != "cpu":
        row |= {"fp8_configure_s": 20.0, "fp8_memory_GB": 5.0, "fp8_buckets": 14}
    row |= found
    full_size.judge(row, device, 2.0)
    assert row["passed"] is passed


def test_bounds_are_kept_from_above_or_from_below():
    assert record.keeps({"a": 1, "b": 3}, {"a": 1, "b": 3}, ("b",))
    assert not record.keeps({"a": 2, "b": 3}, {"a": 1, "b": 3}, ("b",))
    assert not record.keeps({"a": 1, "b": 2}, {"a": 1, "b": 3}, ("b",))
    assert not record.keeps({"b": float("nan")}, {"b": 3}, ("b",))


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
