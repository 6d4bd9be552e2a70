# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A replay for people: tables and a picture of the errors; and for programs: JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phyai_ros.replay.compare import Comparison, Parity
from phyai_ros.replay.result import ResultFile


def tables(result: ResultFile, comparison: Comparison | None, live: Parity | None) -> list[Table]:
    """What is printed, on a console that takes strings as they are."""
    about = result.about
    sent = int((~np.isnan(result["command"]).any(axis=1)).sum())
    summary = Table(box=box.SIMPLE, show_header=False)
    for name, value in (
        ("bag", f"{about['bag']} ({about['mode']} requests, {about['clock']} time)"),
        ("policy", f"{about['policy']}, {about['selector']} path"),
        ("requests", f"{len(result['request_id'])} answered, {len(about['unanswered'])} not"),
        ("ticks", f"{len(result['tick'])}, {sent} commands"),
    ):
        summary.add_row(name, value)
    if live is not None:
        chunks = f"{live.identical} of {live.chunks} chunks bit-identical"
        commands = f"{live.identical_commands} of {live.commands} commands"
        summary.add_row("as live", f"{chunks}, {commands}")
        others = [p for p in about["live_policies"] if p != about["policy"]]
        if others:
            text = f"the live policy was another: {'; '.join(others)}"
            summary.add_row("", text, style="yellow")
        if live.first:
            summary.add_row("", live.first)
    found = [summary]
    refused = _refusals(result)
    if refused.row_count:
        found.append(refused)
    if comparison is not None:
        checks = Table("against the golden", "", "found", "first difference", box=box.SIMPLE)
        for check in comparison.checks:
            verdict = Text("ok", "green") if check.passed else Text("differs", "bold red")
            checks.add_row(check.name, verdict, check.found, check.first)
        found.append(checks)
    return found


def _refusals(result: ResultFile) -> Table:
    table = Table("not used", "why", "count", "first", box=box.SIMPLE)
    for entry in result.about["refusals"]:
        table.add_row(*(str(entry[key]) for key in ("topic", "kind", "count", "first")))
    for what in ("unanswered", "delayed"):
        reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for entry in result.about[what]:
            reasons.setdefault((entry["reason"], entry["stream"]), []).append(entry)
        for (reason, stream), entries in reasons.items():
            first = f"request {entries[0]['request']}: {entries[0]['text']}"
            name = f"request {what}" + (f" ({stream})" if stream else "")
            table.add_row(name, reason, str(len(entries)), first)
    return table


def show(
    result: ResultFile, comparison: Comparison | None, live: Parity | None, console: Console
) -> None:
    for table in tables(result, comparison, live):
        console.print(table)


def as_json(
    result: ResultFile, comparison: Comparison | None, live: Parity | None
) -> dict[str, Any]:
    """JSON values; numbers that are NaN are left out."""
    found: dict[str, Any] = {
        "about": dict(result.about),
        "requests": len(result["request_id"]),
        "ticks": len(result["tick"]),
        "commands": int((~np.isnan(result["command"]).any(axis=1)).sum()),
    }
    if live is not None:
        found["live"] = {
            "chunks": live.chunks,
            "identical_chunks": live.identical,
            "commands": live.commands,
            "identical_commands": live.identical_commands,
            "first": live.first,
        }
    if comparison is not None:
        found["golden"] = {
            "passed": comparison.passed,
            "first": comparison.first,
            "checks": [
                {"name": c.name, "passed": c.passed, "found": c.found, "first": c.first}
                for c in comparison.checks
            ],
        }
    return found


def plot(
    result: ResultFile, error: np.ndarray, command_error: np.ndarray, title: str, path: Path
) -> None:
    """Largest error by joint, per request and per tick. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    top, bottom = figure.subplots(2, 1)
    start = result["tick_ns"][0] if len(result["tick_ns"]) else 0
    worst = error.max(axis=1) if error.size else np.zeros((0, len(result.about["joints"])))
    seconds = (result["stamp_ns"][: len(worst)] - start) / 1e9
    ticks = (result["tick_ns"][: len(command_error)] - start) / 1e9
    for j, joint in enumerate(result.about["joints"]):
        if len(worst):
            top.plot(seconds, worst[:, j], ".-", label=joint, linewidth=0.8)
        if command_error.size:
            bottom.plot(ticks, command_error[:, j], label=joint, linewidth=0.8)
    for axes, what in ((top, "chunk, largest of its rows"), (bottom, "command")):
        axes.set_ylabel(f"{what}\n|difference|, rad or m")
        axes.set_yscale("symlog", linthresh=1e-9)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:g}")  # powers of ten would ask for a dozen more fonts
        axes.grid(alpha=0.3)
    bottom.set_xlabel("s into the bag")
    if len(worst):
        top.legend(fontsize=7, ncols=4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
