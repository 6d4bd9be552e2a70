# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros roofline``: known results from typed-in numbers, reports, what-if, refusals."""

from __future__ import annotations

import json
import math

import pytest
from rclpy.serialization import serialize_message

from phyai_ros.bags.writer import BagWriter
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import convert
from phyai_ros.tools import recorded, roofline


@pytest.fixture
def run(tmp_path, capsys):
    """words -> (exit status, lines of the outcome, numbers, stderr)."""

    def run_it(*words):
        out = tmp_path / "roofline.json"
        status = roofline.main([*words, "--png", str(tmp_path / "r.png"), "--json", str(out)])
        said = capsys.readouterr()
        numbers = json.loads(out.read_text()) if status == 0 else []
        return status, said.out, numbers, said.err

    return run_it


def test_a_fast_policy_with_ten_actions_at_20_hz_is_environment_bound(run, tmp_path):
    status, text, (result,), _ = run(
        "--inference-ms", "36", "--horizon", "10", "--execution-horizon", "10", "--rate", "20"
    )
    assert status == 0
    assert result["bound"] == "environment"
    assert result["slack"] == pytest.approx(0.464)
    assert "464 ms of slack to the next handoff" in text
    assert (tmp_path / "r.png").stat().st_size > 10_000


def test_a_slow_policy_executed_8_of_32_stays_inference_bound_until_18(run):
    status, text, results, _ = run(
        "--inference-ms",
        "1180",
        "--horizon",
        "32",
        "--execution-horizon",
        "8",
        "--rate",
        "15",
        "--what-if",
        "horizon=17",
        "--what-if",
        "horizon=18",
        "--what-if",
        "inference=0.4,rate=0.5",
    )
    assert status == 0
    bounds = [r["bound"] for r in results]
    assert bounds == ["inference", "inference", "environment", "environment"]
    assert "647 ms short at each handoff; in effect 18 rows are executed" in text
    assert results[0]["boundary"] == 18


def report(tmp_path, **changes):
    content = {
        "inference": {"p50": 0.1, "p99": 0.16},
        "stages": {"wait": {"p50": 0.02}, "deliver": {"p50": 0.03}},
        "chunks": {"horizon": 16, "executed": 8.2},
        "control_rate": 20.0,
        **changes,
    }
    place = tmp_path / "a_run"
    place.mkdir(exist_ok=True)
    (place / "report.json").write_text(json.dumps(content))
    return str(place / "report.json")


def test_a_report_is_enough(run, tmp_path):
    status, text, (result,), _ = run("--report", report(tmp_path))
    assert status == 0
    assert result["think"] == pytest.approx(0.15)
    assert result["slack"] == pytest.approx(0.25)
    assert result["slack_p99"] == pytest.approx(0.19)
    assert text.count("a_run") == 2  # table and sentence


@pytest.mark.parametrize(
    ("p99", "late"), [(0.16, None), (0.377, "but one chunk in a hundred comes 27 ms late or more")]
)
def test_slack_that_the_slowest_chunks_do_not_have_is_no_promise(run, tmp_path, p99, late):
    status, text, (result,), _ = run(
        "--report", report(tmp_path, inference={"p50": 0.1, "p99": p99})
    )
    assert status == 0
    assert result["slack_p99"] == pytest.approx(0.35 - p99)
    assert ("250 ms of slack to the next handoff" + (f", {late}\n" if late else "\n")) in text


def test_typed_numbers_take_the_place_of_a_reports(run, tmp_path):
    _, _, (result,), _ = run("--report", report(tmp_path), "--rate", "10", "--transport-ms", "0")
    assert result["execution"] == pytest.approx(0.8)
    assert result["think"] == pytest.approx(0.1)


def test_a_report_of_a_run_that_never_moved_names_what_to_type(run, tmp_path):
    path = report(tmp_path, chunks={"horizon": None, "executed": None})
    status, _, _, error = run("--report", path)
    assert status == 2
    assert "chunks.horizon is missing" in error
    assert "--horizon" in error


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "--inference-ms, --horizon, --execution-horizon, --rate missing"),
        (("--report", "/nowhere/report.json"), "No such file"),
        (
            ("--inference-ms", "1", "--horizon", "4", "--execution-horizon", "5", "--rate", "9"),
            "execution_horizon: expected 1 to 4, found 5",
        ),
        (
            ("--inference-ms", "1", "--horizon", "4", "--execution-horizon", "4", "--rate", "9",
             "--what-if", "speed=2"),
            "'speed=2': expected inference=FACTOR",
        ),
    ],
)  # fmt: skip
def test_refusals_say_what_is_expected(run, words, text):
    status, _, _, error = run(*words)
    assert status == 2
    assert text in error


SECOND = 1_000_000_000


@pytest.fixture
def bag(tmp_path):
    """Two seconds at 20 Hz: chunks of 16 rows, a new one every 5 ticks, 120 ms old on arrival."""
    place = tmp_path / "monday"
    writer = BagWriter(place)
    writer.add_topic("/phyai/handoff_state", recorded.STATE)
    writer.add_topic("/phyai/chunk", recorded.CHUNK)
    begin = 1_700_000_000 * SECOND
    for tick in range(40):
        now = begin + tick * SECOND // 20
        number, index = divmod(tick, 5)
        if index == 0:
            chunk = ActionChunk(
                request_id=number, epoch=1, horizon=16, joint_names=["pan"], positions=[0.5] * 16
            )
            convert.set_time(chunk.header.stamp, now - SECOND * 12 // 100)
            chunk.sources, chunk.source_stamps = ["scene"], [chunk.header.stamp]
            convert.fill_stages(chunk.stages, {"wait": 0.02, "solver": 0.09, "prefix": 0.01})
            writer.write("/phyai/chunk", now, serialize_message(chunk))
        state = HandoffState(
            state=HandoffState.EXECUTING, request_id=number, epoch=1, index=2 + index
        )
        state.deliver = 0.0 if index == 0 else math.nan
        convert.set_time(state.header.stamp, now)
        writer.write("/phyai/handoff_state", now, serialize_message(state))
    writer.close()
    return place


def test_a_bag_is_as_good_as_a_report(run, bag):
    status, text, results, error = run("--report", str(bag))
    assert status == 0, error
    (result,) = results
    workload = result["workload"]
    assert (workload["name"], workload["horizon"], workload["execution_horizon"]) == (
        "monday",
        16,
        5,
    )
    assert workload["control_rate"] == pytest.approx(20.0)
    assert result["think"] == pytest.approx(0.12)
    assert "130 ms of slack" in text
    status, _, _, error = run("--report", str(bag.parent / "nothing.mcap"))
    assert status == 2
    assert "there is no such bag" in error
