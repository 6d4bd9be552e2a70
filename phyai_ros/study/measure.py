# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An episode's trace -> numbers that add up, and those of many episodes -> means.

Smoothness is of the arm's joints as commanded (grippers switch, by rule), over every tick from the
first command on, stops included. ``*_jerk`` is what SEAM calls so: the 2nd difference
(control.metrics), mrad a tick squared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from phyai_ros.control import metrics
from phyai_ros.control.states import State
from phyai_ros.study.loop import Trace

_ACTING = (State.RAMPING, State.EXECUTING)
_SUMS = (
    "ticks",
    "acting",
    "starved",
    "limited",
    "answers",
    "chunks",
    "late",
    "dropped",
    "delay",
    "boundary_count",
    "boundary",
    "interior_count",
    "interior",
    "discontinuity_count",
    "discontinuity",
    "age_first",
    "age_last",
    "age_all",
    "unseen",
    "reaction",
)


def episode(trace: Trace, arm: Sequence[int], period: float) -> dict[str, Any]:
    """One episode in numbers, fit for JSON. arm: columns of the arm's joints."""
    reports = [r for r in trace.reports if r.command.positions is not None]
    outcome = trace.outcome
    row: dict[str, Any] = {
        "success": bool(outcome and outcome.success),
        "seconds": outcome.seconds if outcome else None,
        "distance": outcome.distance if outcome else None,
        "ticks": len(reports),
        "acting": sum(r.command.state in _ACTING for r in reports),
        "starved": trace.counters.starved_ticks,
        "limited": trace.limited,
        "answers": trace.answers,
        "chunks": sum(r.command.first_use for r in reports),
        "late": trace.counters.late_chunks,
        "dropped": trace.counters.dropped_chunks,
        "refusals": sorted(set(trace.refusals))[:3],
    }
    row.update(_delays(trace))
    row.update(_smoothness(reports, arm))
    row.update(_ages(reports))
    row.update(_reaction(trace))
    return {k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()}


def _delays(trace: Trace) -> dict[str, Any]:
    """Ticks from observation to first use, of every chunk but the first: the arm stood."""
    used = [r for r in trace.reports if r.command.first_use][1:]
    delays = [r.command.index for r in used]
    return {
        "delay": sum(delays),
        "delay_max": max(delays, default=0),
        "delay_chunks": len(delays),
    }


def _smoothness(reports: Sequence[Any], arm: Sequence[int]) -> dict[str, Any]:
    if len(reports) < 3:
        return {k: 0 for k in _SUMS if k.startswith(("boundary", "interior", "discontinuity"))}
    commands = 1e3 * np.stack([r.command.positions for r in reports])[:, list(arm)]
    edges = [i for i, r in enumerate(reports) if r.command.first_use and i > 0]
    found = metrics.jerk(commands, edges)
    inside = sum(1 for i in edges if 1 <= i <= len(commands) - 2)
    outside = len(commands) - 2 - inside
    return {
        "boundary_count": inside,
        "boundary": found.boundary * inside if inside else 0.0,
        "interior_count": outside,
        "interior": found.interior * outside if outside else 0.0,
        "discontinuity_count": len(edges),
        "discontinuity": (
            metrics.chunk_discontinuity(commands, edges) * len(edges) if edges else 0.0
        ),
    }


def _ages(reports: Sequence[Any]) -> dict[str, float]:
    """Sums over chunks of the age of the first and of the last row used, and over ticks; s."""
    acting = [r.command for r in reports if r.command.state in _ACTING]
    if not acting:
        return {"age_first": 0.0, "age_last": 0.0, "age_all": 0.0}
    found = metrics.action_age([c.action_age for c in acting], [c.request_id for c in acting])
    count = len({c.request_id for c in acting})
    return {
        "age_first": found.first * count,
        "age_last": found.last * count,
        "age_all": found.all.mean * found.all.count,
    }


def _reaction(trace: Trace) -> dict[str, float]:
    """From something that happens at a random time to the first command that can know of it (mean
    over that time): what happens between two used observations waits for the later one's use."""
    unseen = reaction = 0.0
    before: float | None = None
    for report in trace.reports:
        if not report.command.first_use:
            continue
        seen = trace.observed[report.command.request_id]
        if before is not None and seen > before:
            gap = seen - before
            unseen += gap
            reaction += gap * (report.now - seen + 0.5 * gap)
        before = seen
    return {"unseen": unseen, "reaction": reaction}


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over episodes: each chunk, tick or boundary counts once. None: there was none."""
    rows = list(rows)
    total = {key: math.fsum(row[key] for row in rows) for key in (*_SUMS, "delay_chunks")}
    episodes, successes = len(rows), sum(bool(row["success"]) for row in rows)
    done = [row["seconds"] for row in rows if row["success"]]
    boundary = _ratio(total["boundary"], total["boundary_count"])
    interior = _ratio(total["interior"], total["interior_count"])
    found = {
        "episodes": episodes,
        "successes": successes,
        "success": _ratio(successes, episodes),
        "wilson_95": list(metrics.wilson(successes, episodes)),
        "seconds_to_success": float(np.median(done)) if done else None,
        "starved_ticks": _ratio(total["starved"], episodes),
        "blocked_share": _ratio(total["ticks"] - total["acting"], total["ticks"]),
        "boundary_jerk": boundary,
        "interior_jerk": interior,
        "jerk_ratio": _ratio(boundary, interior),
        "discontinuity": _ratio(total["discontinuity"], total["discontinuity_count"]),
        "age_first": _ratio(total["age_first"], total["chunks"]),
        "age_last": _ratio(total["age_last"], total["chunks"]),
        "age_mean": _ratio(total["age_all"], total["acting"]),
        "reaction": _ratio(total["reaction"], total["unseen"]),
        "delay_ticks": _ratio(total["delay"], total["delay_chunks"]),
        "delay_ticks_max": max((row["delay_max"] for row in rows), default=0),
        "late": int(total["late"]),
        "dropped": int(total["dropped"]),
        "limited_share": _ratio(total["limited"], total["ticks"]),
        "answers": _ratio(total["answers"], episodes),
    }
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}


def _ratio(value: float | None, count: float | None) -> float | None:
    return value / count if count and value is not None else None
