# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Two results: exact where they must be, within a tolerance where arithmetic may differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phyai_ros.control.states import State
from phyai_ros.replay.result import ResultFile

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.05, "fp8": 0.2}
"""Share of what a joint's actions span in the golden, by precision. float32 differs between
machines by the order of its sums; half precision by its 8 or 11 bits, FP8 by its 4, or 3 on some
devices, carried through every denoising step."""
SAME = 2e-9
"""rad or m; a trajectory is sent anew only where it differs by more than half of this."""
LEAST_SPAN = 0.01
"""rad or m; a joint that hardly moves is compared as if it moved by this."""


@dataclass(frozen=True)
class Check:
    """One comparison. found: what came out, for people. first: the first difference in words, empty
    when there is none."""

    name: str
    passed: bool
    found: str
    first: str = ""


@dataclass(frozen=True)
class Comparison:
    """error: absolute difference of the actions, float64 [requests, horizon, joints], robot units;
    command_error: of the commands [ticks, joints]; both NaN where there is nothing to compare."""

    checks: list[Check] = field(default_factory=list)
    error: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    command_error: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def first(self) -> str:
        """The first difference in words; empty when there is none."""
        return next((check.first for check in self.checks if not check.passed), "")


def compare(result: ResultFile, golden: ResultFile, tolerance: float | None = None) -> Comparison:
    """tolerance: as in TOLERANCE; None: by the two precisions, the coarser one."""
    if tolerance is None:
        tolerance = max(TOLERANCE[str(r.about["precision"])] for r in (result, golden))
    checks = [_same_setting(result, golden)]
    if not checks[0].passed:
        return Comparison(checks)
    checks.append(_requests(result, golden))
    checks.append(_refusals(result, golden))
    n = min(len(result["request_id"]), len(golden["request_id"]))
    m = min(len(result["tick"]), len(golden["tick"]))
    checks.append(_observations(result, golden, n))
    checks.append(_ticks(result, golden, m))
    span = _span(golden["chunk"], golden["command"])
    error = np.abs(result["chunk"][:n] - golden["chunk"][:n])
    checks.append(_actions(result, error, span, tolerance))
    command_error = np.abs(result["command"][:m] - golden["command"][:m])
    checks.append(_commands(result, golden, command_error, span, tolerance))
    return Comparison(checks, error, command_error)


def _same_setting(result: ResultFile, golden: ResultFile) -> Check:
    for key in ("mode", "clock", "robot", "joints", "cameras", "states", "seed", "handoff"):
        found, expected = result.about.get(key), golden.about.get(key)
        if found != expected:
            text = f"{key}: expected {expected}, found {found}: not the same replay"
            return Check("same replay", False, key, text)
    if result["chunk"].shape[1:] != golden["chunk"].shape[1:]:
        shapes = [list(r["chunk"].shape[1:]) for r in (golden, result)]
        text = f"chunks: expected [rows, joints] {shapes[0]}, found {shapes[1]}"
        return Check("same replay", False, "chunk shape", text)
    return Check("same replay", True, f"{result.about['mode']} requests")


def _requests(result: ResultFile, golden: ResultFile) -> Check:
    found, expected = result["request_id"].tolist(), golden["request_id"].tolist()
    name, told = "requests answered", f"{len(found)} of {len(expected)}"
    if found == expected:
        return Check(name, True, told)
    at = _first_difference(found, expected)
    wanted = f"request {expected[at]}" if at < len(expected) else "none"
    came = f"request {found[at]}" if at < len(found) else "none"
    why = ""
    if at < len(expected):
        left = [u for u in result.about["unanswered"] if u["request"] == expected[at]]
        why = f" ({left[0]['text']})" if left else ""
    return Check(name, False, told, f"answer {at}: expected {wanted}, found {came}{why}")


def _refusals(result: ResultFile, golden: ResultFile) -> Check:
    def told(r: ResultFile) -> list[Any]:
        named = [[x["topic"], x["kind"], x["count"]] for x in r.about["refusals"]]
        for list_ in ("unanswered", "delayed"):
            named += [[x["request"], x["reason"], x["stream"]] for x in r.about[list_]]
        return named

    found, expected = told(result), told(golden)
    name, count = "refusals", f"{len(found)} of {len(expected)}"
    if found == expected:
        return Check(name, True, count)
    at = _first_difference(found, expected)
    wanted = expected[at] if at < len(expected) else "none"
    came = found[at] if at < len(found) else "none"
    return Check(name, False, count, f"refusal {at}: expected {wanted}, found {came}")


def _observations(result: ResultFile, golden: ResultFile, n: int) -> Check:
    same = np.ones(n, bool)
    for key in ("stamp_ns", "image_hash", "text_hash", "state"):
        pair = result[key][:n] == golden[key][:n]
        same &= _whole(pair)
    told = f"{int(same.sum())} of {n} identical"
    if same.all():
        return Check("observations", True, told)
    i = int(np.flatnonzero(~same)[0])
    request = result["request_id"][i]
    return Check("observations", False, told, f"request {request}: " + _which(result, golden, i))


def _whole(same: np.ndarray) -> np.ndarray:
    """[n, ...] -> [n]: where all of an entry is. Of none there are none."""
    return np.asarray(same.all(axis=tuple(range(1, same.ndim))))


def _which(result: ResultFile, golden: ResultFile, i: int) -> str:
    """What differs between two observations."""
    if result["stamp_ns"][i] != golden["stamp_ns"][i]:
        apart = (int(result["stamp_ns"][i]) - int(golden["stamp_ns"][i])) / 1e9
        return f"observed {abs(apart):.6f} s {'later' if apart > 0 else 'earlier'} than the golden"
    for camera, one, other in zip(
        result.about["cameras"], result["image_hash"][i], golden["image_hash"][i], strict=True
    ):
        if not np.array_equal(one, other):
            return f"camera {camera}: other pixels"
    if not np.array_equal(result["text_hash"][i], golden["text_hash"][i]):
        return "another instruction"
    apart = np.abs(result["state"][i] - golden["state"][i])
    column = int(np.nanargmax(apart))
    return f"state {result.about['states'][column]} differs by {apart[column]:.3g}"


def _ticks(result: ResultFile, golden: ResultFile, m: int) -> Check:
    keys = ("tick", "tick_ns", "state_code", "tick_request", "tick_index")
    same = np.ones(m, bool)
    for key in keys:
        same &= result[key][:m] == golden[key][:m]
    sent, expected = (~np.isnan(r["command"][:m]).any(axis=1) for r in (result, golden))
    same &= sent == expected
    told = f"{int(same.sum())} of {len(golden['tick'])} identical"
    if same.all() and len(result["tick"]) == len(golden["tick"]):
        return Check("ticks", True, told)
    if same.all():
        text = f"expected {len(golden['tick'])} ticks, found {len(result['tick'])}"
        return Check("ticks", False, told, text)
    i = int(np.flatnonzero(~same)[0])
    found, wanted = (_tick(r, i) for r in (result, golden))
    return Check("ticks", False, told, f"tick {i}: expected {wanted}, found {found}")


def _tick(r: ResultFile, i: int) -> str:
    state = State(int(r["state_code"][i])).name
    return f"{state}, request {r['tick_request'][i]}, row {r['tick_index'][i]}"


def _span(chunks: np.ndarray, commands: np.ndarray) -> np.ndarray:
    """What each joint's values span: [joints], at least LEAST_SPAN."""
    rows = np.concatenate([chunks.reshape(-1, chunks.shape[-1]), commands])
    rows = rows[~np.isnan(rows).any(axis=1)]
    if not len(rows):
        return np.full(chunks.shape[-1], LEAST_SPAN)
    return np.maximum(rows.max(axis=0) - rows.min(axis=0), LEAST_SPAN)


def _actions(result: ResultFile, error: np.ndarray, span: np.ndarray, tolerance: float) -> Check:
    told = _told(error, span, result.about["joints"])
    wrong = ~(error <= tolerance * span)
    if not wrong.any():
        return Check("actions", True, told)
    i, step, joint = (int(k) for k in np.argwhere(wrong)[0])
    text = (
        f"request {result['request_id'][i]}, joint {result.about['joints'][joint]}, step {step}: "
        f"differs by {error[i, step, joint]:.3g}, allowed {tolerance * span[joint]:.3g}"
    )
    return Check("actions", False, told, text)


def _commands(
    result: ResultFile,
    golden: ResultFile,
    error: np.ndarray,
    span: np.ndarray,
    tolerance: float,
) -> Check:
    told = _told(error, span, result.about["joints"])
    both = ~np.isnan(result["command"][: len(error)]) & ~np.isnan(golden["command"][: len(error)])
    wrong = both & ~(error <= tolerance * span)
    if not wrong.any():
        return Check("commands", True, told)
    i, joint = (int(k) for k in np.argwhere(wrong)[0])
    text = (
        f"tick {i} ({_tick(result, i)}), joint {result.about['joints'][joint]}: "
        f"differs by {error[i, joint]:.3g}, allowed {tolerance * span[joint]:.3g}"
    )
    return Check("commands", False, told, text)


def _told(error: np.ndarray, span: np.ndarray, joints: Sequence[str]) -> str:
    if not error.size or np.isnan(error).all():
        return "nothing to compare"
    share = np.nan_to_num(error / span)
    if not share.any():
        return "bit-identical"
    worst = np.unravel_index(int(share.argmax()), share.shape)
    joint = joints[int(worst[-1])]
    return f"at most {error[worst]:.3g} ({joint}, {share[worst]:.2g} of its span)"


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> int:
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))


@dataclass(frozen=True)
class Parity:
    """A live run against its replay. error: as in Comparison; NaN where nothing was recorded.
    identical: chunks equal bit for bit, of ``chunks``."""

    chunks: int
    identical: int
    commands: int
    identical_commands: int
    error: np.ndarray
    command_error: np.ndarray
    first: str


def parity(result: ResultFile) -> Parity | None:
    """None where the bag held no live run."""
    chunk, live = result["chunk"], result["live"]
    if result.about["mode"] != "recorded":
        return None
    n = len(chunk)
    same = _whole(chunk == live)
    error = np.abs(chunk - live)
    command, sent = result["command"], result["live_command"]
    told = ~np.isnan(sent)  # an output that was not recorded tells nothing of its joints
    both = ~np.isnan(command).any(axis=1) & told.any(axis=1)
    equal = ((np.abs(command - sent) <= SAME) | ~told).all(axis=1) & both
    first = ""
    if not same.all():
        i = int(np.flatnonzero(~same)[0])
        if np.isnan(error[i]).any():
            first = f"request {result['request_id'][i]}: the live chunk had other rows or joints"
        else:
            step, joint = np.unravel_index(int(error[i].argmax()), error[i].shape)
            first = (
                f"request {result['request_id'][i]}, joint {result.about['joints'][int(joint)]}, "
                f"step {int(step)}: differs from live by {error[i].max():.3g}"
            )
    return Parity(
        n,
        int(same.sum()),
        int(both.sum()),
        int(equal.sum()),
        error,
        np.abs(command - sent),
        first,
    )
