# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Rows of a study -> its result: one entry a condition, in the order of the design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phyai_ros.study import measure
from phyai_ros.study.design import Design

COLUMNS = (
    ("handoff", "handoff", 1.0, 0),
    ("delay", "delay", 1.0, 0),
    ("horizon", "s", 1.0, 0),
    ("success", "success %", 100.0, 0),
    ("wilson_95", "95 %", 100.0, 0),
    ("starved_ticks", "starved ticks", 1.0, 1),
    ("blocked_share", "blocked %", 100.0, 0),
    ("boundary_jerk", "2nd diff. at boundary", 1.0, 2),
    ("interior_jerk", "inside", 1.0, 2),
    ("jerk_ratio", "ratio", 1.0, 2),
    ("discontinuity", "step at boundary", 1.0, 1),
    ("age_first", "age first ms", 1e3, 0),
    ("age_last", "age last ms", 1e3, 0),
    ("reaction", "reaction ms", 1e3, 0),
    ("delay_ticks", "delay ticks", 1.0, 1),
    ("late", "late", 1.0, 0),
    ("dropped", "dropped", 1.0, 0),
)
"""(key, heading, scale, digits) of the table; 2nd differences in mrad/tick²,
steps in mrad."""


def build(
    design: Design, rows: Mapping[tuple[str, int], Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit for JSON; equal for equal studies, whatever the order in which episodes were done."""
    seeds = range(design.first_seed, design.first_seed + design.episodes)
    entries = []
    for condition in design.conditions:
        mine = [rows[condition.key, s] for s in seeds if (condition.key, s) in rows]
        entries.append(
            {
                "handoff": condition.handoff,
                "horizon": condition.horizon,
                "delay": condition.latency.label,
                **measure.summary(mine),
            }
        )
    return {**about, "conditions": entries}


def cells(entry: Mapping[str, Any]) -> list[str]:
    """One line of the table."""
    return [_text(entry[key], scale, digits) for key, _, scale, digits in COLUMNS]


def markdown(result: Mapping[str, Any]) -> str:
    lines = [
        "| " + " | ".join(heading for _, heading, _, _ in COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    lines += ["| " + " | ".join(cells(entry)) + " |" for entry in result["conditions"]]
    return "\n".join(lines) + "\n"


def _text(value: Any, scale: float, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " to ".join(_text(v, scale, digits) for v in value)
    return f"{scale * value:.{digits}f}"
