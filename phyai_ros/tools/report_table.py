# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The report for people: tables on a terminal, plain text when piped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phyai_ros.control.words import counted
from phyai_ros.engine.types import STAGES
from phyai_ros.tools.console import labelled


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print ``report`` (of ``report.build``); of a run in which nothing ever acted one sentence,
    with what kept it from acting."""
    acted = report["ticks"]["acting"] > 0
    if acted or any(e["finished"] for e in report["episodes"]):
        console.print(_episodes(report))
    if acted:
        console.print(_timing(report))
        console.print(_control(report))
    else:
        console.print(_nothing(report))
    if line := _longer(report):
        console.print(line)
    if acted:
        console.print(_JERK_NOTE, style="dim")
    for name, value in report["drops"].items():
        console.print(labelled("  dropped", "yellow", f" {name}: {value}"))
    for problem in report["problems"]:
        console.print(labelled("  problem", "red", f" {problem}"))


_JERK_NOTE = (
    "2nd difference: of commands over three ticks, at and away from the takeover of a new chunk "
    "(report.json: jerk)"
)


def _longer(report: Mapping[str, Any]) -> str:
    """Why the run took longer than asked, where it did."""
    asked, ran = report.get("asked", {}).get("duration"), report["ran"]
    if asked is None or ran is None or ran < asked + 0.5 or not report["episodes"]:
        return ""
    if not report["episodes"][-1]["finished"]:
        return ""
    return f"asked {asked:g} s, ran {ran:.1f} s: the last episode was finished"


def _nothing(report: Mapping[str, Any]) -> str:
    ticks, chunks = report["ticks"]["total"], report["inference"]["count"]
    if not ticks:
        return "The arm was never commanded: nothing was heard of the handoff."
    came = f"{counted(ticks, 'control tick')}, {counted(chunks, 'chunk')}"
    return f"The arm was never commanded: {came}, no action."


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _episodes(report: Mapping[str, Any]) -> Table:
    title = "Episodes"
    result = report["success"]
    if result is not None:
        low, high = result["wilson_95"]
        title += (
            f": {result['count']} of {result['of']} succeeded, {100 * result['rate']:.0f} % "
            f"(95 % Wilson interval {100 * low:.0f} to {100 * high:.0f} %)"
        )
    table = _table(title)
    for heading in ("seed", "instruction", "outcome"):
        table.add_column(heading)
    for heading in ("seconds", "distance"):
        table.add_column(heading, justify="right")
    for episode in report["episodes"]:
        success = episode.get("success")
        outcome = {True: ("success", "green"), False: ("failure", "red")}.get(
            success, ("unfinished", "yellow")
        )
        over = episode.get("over") if success is False else None
        distance = episode.get("distance")
        table.add_row(
            str(episode.get("seed", "")),
            str(episode.get("instruction", "")),
            labelled(*outcome, f", over the {over} block" if over else ""),
            _number(episode.get("seconds"), 1, 2),
            "" if distance is None else f"{1000 * distance:.0f} mm",
        )
    return table


def _timing(report: Mapping[str, Any]) -> Table:
    count = report["inference"]["count"]
    table = _table(f"Inference: {counted(count, 'chunk')}")
    table.add_column("stage")
    for heading in ("p50 ms", "p99 ms", "max ms"):
        table.add_column(heading, justify="right")
    for name in STAGES:
        table.add_row(name, *_milliseconds(report["stages"][name]))
    table.add_section()
    table.add_row(Text("inference", "bold"), *_milliseconds(report["inference"]))
    return table


def _control(report: Mapping[str, Any]) -> Table:
    ticks, chunks, jerk = report["ticks"], report["chunks"], report["jerk"]
    age, index = report["action_age"], report["action_index"]
    table = _table("Control")
    table.add_column("what")
    table.add_column("value", justify="right")
    rows = [
        ("ticks (of these with an action)", f"{ticks['total']} ({ticks['acting']})"),
        ("deadline misses", str(ticks["deadline_misses"])),
        ("starved ticks", str(ticks["starved"])),
        ("ticks changed by the guard", str(ticks["limited_by_guard"])),
        ("tick jitter p50 / p99, ms", _pair(ticks["jitter"]["p50"], ticks["jitter"]["p99"], 1e3)),
        (
            "chunks received = used + dropped + unused",
            f"{chunks['received']} = {chunks['used']} + {chunks['dropped']} + {chunks['unused']}",
        ),
        ("of the used: later than expected", str(chunks["late"])),
        (
            "chunk delay p50 / max, ticks",
            _pair(chunks["delay_ticks"]["p50"], chunks["delay_ticks"]["max"], 1, 0),
        ),
        ("action age, first / last row of a chunk, ms", _pair(age["first"], age["last"], 1e3, 0)),
        ("row index, first / last used (mean)", _pair(index["first"], index["last"], 1, 1)),
        (
            "2nd difference (boundary / inside), mrad/tick²",
            _pair(jerk["boundary"], jerk["interior"], 1e3),
        ),
    ]
    factor = report.get("real_time_factor")
    if factor is not None:
        rows.append(
            (
                "simulator, real-time factor mean / lowest",
                _pair(factor["mean"], factor["lowest"], 1, 3),
            )
        )
    if (sets := report.get("camera_sets")) is not None:
        skipped, wanted = sets["dropped"], sets["dropped"] + sets["published"]
        share = f"{skipped} of {wanted} ({100 * skipped / max(1, wanted):.0f} %)"
        rows.append(("simulator, camera sets skipped (the newest is drawn)", share))
    for row in rows:
        table.add_row(*row)
    return table


def _milliseconds(spread: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_number(spread[key], 1e3, 1) for key in ("p50", "p99", "max"))


def _pair(first: float | None, second: float | None, scale: float, digits: int = 2) -> str:
    return f"{_number(first, scale, digits)} / {_number(second, scale, digits)}"


def _number(value: Any, scale: float, digits: int) -> str:
    return "-" if value is None else f"{scale * value:.{digits}f}"
