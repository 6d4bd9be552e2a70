# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What differs is said in words; what may differ by arithmetic is not called a difference."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.engine.policy import DTYPES
from phyai_ros.replay import compare as comparing
from phyai_ros.replay import report
from phyai_ros.replay.compare import TOLERANCE, compare, parity
from phyai_ros.replay.result import ResultError, ResultFile, load, save

JOINTS = ["pan", "lift", "finger"]


def made(n=4, horizon=5, ticks=6):
    rng = np.random.default_rng(0)
    about = {
        "format": 1,
        "mode": "recorded",
        "bag": "monday",
        "clock": "log",
        "robot": "arm",
        "policy": "act small, float32, seed 0",
        "live_policies": {},
        "joints": JOINTS,
        "cameras": ["scene", "wrist"],
        "states": ["s.0", "s.1"],
        "seed": 0,
        "handoff": "replace",
        "precision": "float32",
        "selector": "fast",
        "refusals": [],
        "unanswered": [],
        "delayed": [],
    }
    chunk = rng.normal(size=(n, horizon, 3))
    command = rng.normal(size=(ticks, 3))
    command[0] = np.nan
    arrays = {
        "request_id": np.arange(1, n + 1, dtype=np.uint64),
        "epoch": np.ones(n, np.uint64),
        "stamp_ns": np.arange(n) * 10**9,
        "image_hash": rng.integers(0, 255, (n, 2, 32), np.uint8),
        "text_hash": np.zeros((n, 32), np.uint8),
        "state": rng.normal(size=(n, 2)),
        "chunk": chunk,
        "live": chunk.copy(),
        "tick": np.arange(ticks),
        "tick_ns": np.arange(ticks) * 50_000_000,
        "state_code": np.full(ticks, 2, np.uint8),
        "tick_request": np.ones(ticks, np.uint64),
        "tick_index": np.arange(ticks),
        "limited": np.zeros(ticks, bool),
        "command": command,
        "live_command": command.copy(),
    }
    return ResultFile(about, arrays)


def changed(name, index, value):
    result = copy.deepcopy(made())
    result.arrays[name][index] = value(result.arrays[name][index])
    return result


@pytest.mark.parametrize(
    ("name", "index", "value", "check", "says"),
    [
        ("chunk", (2, 3, 1), lambda v: v + 0.5, "actions", "request 3, joint lift, step 3: diff"),
        ("chunk", (0, 0, 0), lambda v: np.nan, "actions", "request 1, joint pan, step 0"),
        ("command", (4, 2), lambda v: v - 0.25, "commands", "joint finger: differs by 0.25"),
        ("command", (4, 2), lambda v: np.nan, "ticks", "tick 4: expected EXECUTING"),
        ("image_hash", (1, 1, 0), lambda v: v ^ 1, "observations", "request 2: camera wrist"),
        ("state", (3, 1), lambda v: v + 1e-12, "observations", "request 4: state s.1 differs by 1"),
        ("text_hash", (3, 1), lambda v: v + 1, "observations", "request 4: another instruction"),
        ("stamp_ns", 2, lambda v: v + 50_000_000, "observations", "0.050000 s later"),
        ("state_code", 5, lambda v: 3, "ticks", "tick 5: expected EXECUTING, request 1, row 5, f"),
        ("tick_ns", 5, lambda v: v + 1, "ticks", "tick 5"),
        ("request_id", 2, lambda v: 9, "requests answered", "expected request 3, found request 9"),
    ],
)
def test_the_first_difference_is_said_in_words(name, index, value, check, says):
    comparison = compare(changed(name, index, value), made())
    assert not comparison.passed
    failed = {c.name: c.first for c in comparison.checks if not c.passed}
    assert says in failed[check]
    assert comparison.first == next(iter(failed.values()))


def test_equal_results_pass_and_say_bit_identical():
    comparison = compare(made(), made())
    assert comparison.passed
    assert [c.found for c in comparison.checks][-2:] == ["bit-identical", "bit-identical"]


@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2), st.sampled_from(sorted(TOLERANCE)))
@settings(max_examples=30, deadline=None)
def test_the_precision_sets_the_tolerance(request_, step, joint, precision):
    golden = made()
    rows = np.concatenate([golden["chunk"].reshape(-1, 3), golden["command"][1:]])
    span = np.ptp(rows, axis=0)[joint]
    for share, passes in ((0.9, True), (1.1, False)):
        away = share * TOLERANCE[precision] * span
        result = changed("chunk", (request_, step, joint), lambda v: v + away)  # noqa: B023
        told = ResultFile({**result.about, "precision": precision}, result.arrays)
        assert compare(told, golden).passed is passes


def test_every_precision_has_a_tolerance():
    assert set(DTYPES) <= set(TOLERANCE)


def test_refusals_count():
    one, other = made(), made()
    entry = {"topic": "/scene", "kind": "ImageError", "count": 2, "first": "", "at": 0.0}
    told = ResultFile({**other.about, "refusals": [entry]}, other.arrays)
    comparison = compare(told, one)
    assert comparison.first == "refusal 0: expected none, found ['/scene', 'ImageError', 2]"


def test_parity_counts_what_is_identical_and_names_the_first_that_is_not():
    result = changed("live", (2, 1, 2), lambda v: v + 1e-15)
    found = parity(result)
    assert (found.chunks, found.identical) == (4, 3)
    assert found.first.startswith("request 3, joint finger, step 1: differs from live by")
    assert (found.commands, found.identical_commands) == (5, 5)


def test_a_file_comes_back_as_it_was(tmp_path):
    result = made()
    for name in ("one", "two"):
        save(result, tmp_path / f"{name}.npz")
    back = load(tmp_path / "one.npz")
    assert back.about == result.about
    for name, array in result.arrays.items():
        np.testing.assert_array_equal(back[name], array)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY", b"text"])
def test_a_file_that_is_none_is_refused_by_name_and_nobody_is_told_to_allow_pickle(tmp_path, data):
    path = tmp_path / "golden.npz"
    path.write_bytes(data)
    with pytest.raises(ResultError, match=r"golden\.npz") as refused:
        load(path)
    assert "pickle" not in str(refused.value)
    with pytest.raises(ResultError, match="no such file"):
        load(tmp_path / "none.npz")


def test_a_pickle_inside_is_not_opened(tmp_path):
    path = tmp_path / "golden.npz"
    np.savez(path, about=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ResultError, match="not a replay's result"):
        load(path)


def test_a_picture_is_drawn_of_the_errors(tmp_path):
    result = changed("chunk", (2, 3, 1), lambda v: v + 0.5)
    comparison = compare(result, made())
    path = tmp_path / "errors.png"
    report.plot(result, comparison.error, comparison.command_error, "t", path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert comparing.parity(result).identical == 3
