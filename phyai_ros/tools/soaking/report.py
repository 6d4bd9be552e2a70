# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A verdict for people and for programs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from phyai_ros.tools.soaking.system import System
from phyai_ros.tools.soaking.verdict import Outcome, Verdict


def as_dict(verdict: Verdict, system: System, about: dict[str, Any]) -> dict[str, Any]:
    """Fit for JSON."""
    return {
        **about,
        "passed": verdict.passed,
        "problems": verdict.problems,
        "late": verdict.late,
        "faults": [
            {
                **one.injected.fault.as_dict(),
                "began": one.injected.began,
                "ended": one.injected.ended,
                "named_s": one.named,
                "named_by": one.by,
                "recovered_s": one.recovered,
                "harmless": one.harmless,
                "problems": [text for text, _ in one.problems],
            }
            for one in verdict.outcomes
        ],
        "worst": worst(verdict),
        "counts": system.timeline.counts,
        "memory": [
            {
                "process": m.process,
                "seconds": round(m.seconds, 1),
                "early_mib": round(m.early / 1024, 2),
                "late_mib": round(m.late / 1024, 2),
                "growth": round(m.growth, 5),
            }
            for m in system.memory.lives()
        ],
        "bags": [
            {"bag": b.path, "messages": b.messages, "gap_s": b.gap, "trouble": b.trouble}
            for b in system.recordings.checked
        ],
        "disk": "tmpfs" if system.disk.limited else "RLIMIT_FSIZE",
    }


def worst(verdict: Verdict) -> dict[str, Any]:
    """The longest times of all faults, s."""
    named = [o.named for o in verdict.outcomes if o.named is not None]
    recovered = [o.recovered for o in verdict.outcomes if o.recovered is not None]
    return {
        "faults": len(verdict.outcomes),
        "named_s": max(named, default=None),
        "recovered_s": max(recovered, default=None),
    }


def show(verdict: Verdict, system: System, console: Console) -> None:
    """Tables: faults by kind, memory, bags; then the verdict."""
    console.print(_faults(verdict.outcomes))
    table = Table("process", "lived s", "own memory MiB", "growth", title="memory")
    for m in system.memory.lives():
        table.add_row(
            m.process,
            f"{m.seconds:.0f}",
            f"{m.early / 1024:.1f} -> {m.late / 1024:.1f}",
            f"{100 * m.growth:.2f} %",
        )
    if table.row_count:
        console.print(table)
    bags = system.recordings.checked
    readable = [b for b in bags if not b.trouble]
    console.print(
        f"{len(readable)} of {len(bags)} bags readable, "
        f"{sum(b.messages for b in bags)} messages, "
        f"last message at most {max((b.gap for b in readable), default=0.0):.2f} s before the end"
    )
    counts = system.timeline.counts
    console.print(
        f"{counts.get('commands', 0)} commands checked, {len(system.timeline.violations)} outside "
        f"limits, {len(system.timeline.not_finite)} not finite, {counts.get('lost', 0)} not heard"
    )
    for text in verdict.problems:
        console.print(f"FAILED {text}", style="bold red")
    for text in verdict.late:
        console.print(f"LATE {text}", style="yellow")
    console.print("passed" if verdict.passed else "failed", style="bold")


def _faults(outcomes: list[Outcome]) -> Table:
    table = Table("fault", "lasted s", "named after s", "recovered s", "", title="faults")
    for one in outcomes:
        injected = one.injected
        table.add_row(
            str(injected.fault),
            f"{injected.ended - injected.began:.1f}",
            _seconds(one.named),
            "went on" if one.harmless else _seconds(one.recovered),
            "; ".join(text.partition(": ")[2] for text, _ in one.problems),
            style="red" if one.problems else "",
        )
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
