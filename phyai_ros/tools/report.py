# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A run in numbers: from a Recording to a JSON-able report and a table for people."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from phyai_ros.control import metrics
from phyai_ros.engine.types import STAGES
from phyai_ros.tools import incidents
from phyai_ros.tools.recording import ACTING, Recording, Tick

ENGINE_STAGES = ("preprocess", "vision", "prefix", "solver", "convert")
"""The stages that are inference: what comes before is waiting, after it transport."""


def build(recording: Recording, about: Mapping[str, Any]) -> dict[str, Any]:
    """The report. ``about`` (model, robot, ...) comes first. NaN becomes None at the end.

    Seconds unless a key says otherwise; jerk as in ``control.metrics`` (second difference a tick
    squared, rad and m together).
    """
    ticks = recording.ticks
    acting = [t for t in ticks if t.state in ACTING]
    report: dict[str, Any] = dict(about)
    report["episodes"] = [
        {**e.about, "finished": e.success is not None} for e in recording.episodes
    ]
    report["success"] = success(recording)
    report["duration"] = ticks[-1].time - ticks[0].time if ticks else 0.0
    report["ran"] = recording.ran
    report["inference"] = _spread([_inference(c.stages) for c in recording.chunks])
    report["stages"] = stages(recording)
    report["ticks"] = {
        "total": len(ticks),
        "acting": len(acting),
        "deadline_misses": _rise(ticks, "missed_ticks"),
        "starved": _rise(ticks, "starved_ticks"),
        "limited_by_guard": _rise(ticks, "limited_ticks"),
        "jitter": _spread([abs(t.jitter) for t in ticks]),
    }
    report["chunks"] = {
        **chunk_counts(recording),
        "delay_ticks": _spread([t.measured_delay for t in acting if t.first_use]),
        "horizon": max((c.rows for c in recording.chunks), default=None),
        "executed": _executed(acting),
    }
    latency = [c.received - c.observed for c in recording.chunks]
    report["chunk_latency"] = {**_spread(latency), "samples": latency}
    report["control_rate"] = _rate(ticks)
    report["action_age"] = _action_age(acting)
    report["action_index"] = _action_index(acting)
    report["jerk"] = _jerk(recording)
    if recording.real_time:
        report["real_time_factor"] = {
            "mean": float(np.mean(recording.real_time)),
            "lowest": float(np.min(recording.real_time)),
        }
    if (sets := camera_sets(recording)) is not None:
        report["camera_sets"] = sets
    report["drops"] = _drops(recording)
    report["restarts"] = incidents.restarts(recording)
    report["problems"] = list(recording.problems)
    if recording.cause:
        report["cause"] = recording.cause
    return _finite(report)


def chunk_counts(recording: Recording) -> dict[str, int]:
    """received = used + dropped + unused. used: its rows reached a tick; late, a part of these:
    later than expected. dropped: refused by the handoff, with a reason. unused: replaced by a newer
    one or cleared by a hold before its first tick, or under way at the end of the run."""
    acting = [t for t in recording.ticks if t.state in ACTING]
    used = len(set(_chunk_numbers(acting)))
    dropped = _rise(recording.ticks, "dropped_chunks")
    # What the handoff counted was received, also where this listener missed it.
    received = max(len(recording.chunks), used + dropped)
    late = _rise(recording.ticks, "late_chunks")
    return {
        "received": received,
        "used": used,
        "late": late,
        "dropped": dropped,
        "unused": received - used - dropped,
    }


def success(recording: Recording) -> dict[str, Any] | None:
    """Over the episodes that have an outcome; None without any (a real robot, say)."""
    outcomes = [e.success for e in recording.episodes if e.success is not None]
    if not outcomes:
        return None
    done, total = sum(outcomes), len(outcomes)
    low, high = metrics.wilson(done, total)
    return {"count": done, "of": total, "rate": done / total, "wilson_95": [low, high]}


def stages(recording: Recording) -> dict[str, dict[str, float]]:
    """Spread of each of the seven stages."""
    values: dict[str, list[float]] = {name: [] for name in STAGES}
    for chunk in recording.chunks:
        for name, seconds in chunk.stages.items():
            values[name].append(seconds)
    values["deliver"] += [t.deliver for t in recording.ticks if t.first_use]
    return {name: _spread(values[name]) for name in STAGES}


def _inference(seconds: Mapping[str, float]) -> float:
    """Sum of the engine's stages; a family measures those that it has."""
    measured = [seconds[s] for s in ENGINE_STAGES if not math.isnan(seconds.get(s, math.nan))]
    return math.fsum(measured) if measured else math.nan


def _spread(values: Sequence[float]) -> dict[str, float]:
    return asdict(metrics.percentiles(values))


def _rise(ticks: Sequence[Tick], counter: str) -> int:
    """What a running total gained over the run; it starts again when the handoff restarts."""
    counts = [getattr(t, counter) for t in ticks]
    steps = itertools.pairwise(counts)
    return sum(after - before if after >= before else after for before, after in steps)


def _chunk_numbers(acting: Sequence[Tick]) -> list[int]:
    """One number a chunk, in order of use; epochs and request ids begin again with every
    handoff."""
    numbers: dict[tuple[int, int, int], int] = {}
    result, handoff, before = [], 0, None
    for tick in acting:
        handoff += before is not None and (tick.epoch, tick.request_id) < before
        before = (tick.epoch, tick.request_id)
        result.append(numbers.setdefault((handoff, *before), len(numbers)))
    return result


def _executed(acting: Sequence[Tick]) -> float | None:
    """Mean of the ticks that a chunk was executed for; the last one may have been cut short."""
    numbers = _chunk_numbers(acting)
    counts = np.bincount(numbers)[:-1] if numbers else np.zeros(0)
    return float(counts.mean()) if counts.size else None


def _rate(ticks: Sequence[Tick]) -> float | None:
    """Hz, of the median step between ticks."""
    steps = np.diff([t.time for t in ticks])
    steps = steps[steps > 0]
    return float(1.0 / np.median(steps)) if steps.size else None


def _action_age(acting: Sequence[Tick]) -> dict[str, Any]:
    return asdict(metrics.action_age([t.action_age for t in acting], _chunk_numbers(acting)))


def _action_index(acting: Sequence[Tick]) -> dict[str, float]:
    """Mean index of the first and of the last row used of a chunk."""
    age = metrics.action_age([t.index for t in acting], _chunk_numbers(acting))
    return {"first": age.first, "last": age.last}


def _jerk(recording: Recording) -> dict[str, float]:
    """Boundary and interior second differences over every stretch of uninterrupted execution."""
    commands, ticks = recording.commanded()
    sums = {"boundary": 0.0, "interior": 0.0}
    counts = {"boundary": 0, "interior": 0}
    for start, end in stretches(ticks):
        part = commands[start:end]
        if len(part) < 3:
            continue
        edges = [i for i, t in enumerate(ticks[start:end]) if t.first_use]
        jerk = metrics.jerk(part, edges)
        inside = sum(1 for i in edges if 1 <= i <= len(part) - 2)
        weights = {"boundary": inside, "interior": len(part) - 2 - inside}
        for kind, weight in weights.items():
            if weight:
                sums[kind] += weight * getattr(jerk, kind)
                counts[kind] += weight
    result = {k: sums[k] / counts[k] if counts[k] else math.nan for k in sums}
    usable = counts["boundary"] and result["interior"] > 0
    result["ratio"] = result["boundary"] / result["interior"] if usable else math.nan
    return result


def stretches(ticks: Sequence[Tick]) -> list[tuple[int, int]]:
    """[start, end) of runs of one epoch without a gap of more than one and a half ticks."""
    if not ticks:
        return []
    times = np.array([t.time for t in ticks])
    steps = np.diff(times)
    period = float(np.median(steps)) if steps.size else 0.0
    cuts = [
        i + 1
        for i in range(len(steps))
        if steps[i] > 1.5 * period or ticks[i].epoch != ticks[i + 1].epoch
    ]
    edges = [0, *cuts, len(ticks)]
    return list(itertools.pairwise(edges))


def camera_sets(recording: Recording) -> dict[str, Any] | None:
    """The simulator's: moments drawn, and those left out for a newer one, since its start. render:
    s, median of drawing and sending one; not less than a camera's period, it is why some are left
    out. None without a simulator."""
    values = recording.diagnostics.get("sim_node: cameras")
    if values is None or "sets published" not in values:
        return None
    return {
        "published": int(values["sets published"]),
        "dropped": int(values["sets dropped"]),
        "render": float(values.get("render and publish p50 s", "nan")),
    }


def _drops(recording: Recording) -> dict[str, str]:
    """Whatever the nodes' diagnostics say was dropped, refused or rejected, and why."""
    words = ("drop", "refus", "reject")
    return {
        f"{name}: {key}": _of_all(key, value, values)
        for name, values in sorted(recording.diagnostics.items())
        for key, value in values.items()
        if any(word in key.lower() for word in words) and value not in ("0", "none", "")
    }


def _of_all(key: str, value: str, values: Mapping[str, str]) -> str:
    """Camera sets that the simulator left out, as a share and with their cause."""
    if key != "sets dropped":
        return value
    dropped = int(value)
    wanted = dropped + int(values["sets published"])
    text = f"{dropped} of {wanted} ({100 * dropped / wanted:.0f} %) skipped, the newest is drawn"
    render = float(values.get("render and publish p50 s", "nan"))
    if math.isfinite(render):
        text += f"; drawing one takes {1e3 * render:.0f} ms (p50) beside the inference"
    return text


def _finite(value: Any) -> Any:
    """JSON has no NaN: None, all the way down."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
