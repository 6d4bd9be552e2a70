# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The tables of docs/handoff.md, from the newest row of each study in results/studies.jsonl.

python benchmarks/study_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import record

ROWS = record.ROOT / "benchmarks" / "results" / "studies.jsonl"


def main() -> None:
    newest: dict[str, dict[str, Any]] = {}
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        newest[row["command"]] = row
    for row in newest.values():
        study = row["study"]
        print(f"\n`{row['command']}` ({study['episodes']} episodes a combination)\n")
        for horizon in dict.fromkeys(e["horizon"] for e in study["conditions"]):
            entries = [e for e in study["conditions"] if e["horizon"] == horizon]
            print(f"s = {horizon}:\n")
            table(entries, "success, %", success)
            table(entries, "2nd difference at boundaries / inside, mrad/tick²", jerk)
            table(entries, "reaction, ms; ticks without a fresh action, %", reaction)


def table(entries: list[dict[str, Any]], title: str, text: Callable[[dict[str, Any]], str]) -> None:
    delays = list(dict.fromkeys(e["delay"] for e in entries))
    print(f"| {title} | " + " | ".join(delays) + " |")
    print("|---" * (1 + len(delays)) + "|")
    for method in dict.fromkeys(e["handoff"] for e in entries):
        mine = {e["delay"]: e for e in entries if e["handoff"] == method}
        print(f"| `{method}` | " + " | ".join(text(mine[d]) for d in delays if d in mine) + " |")
    print()


def success(entry: dict[str, Any]) -> str:
    low, high = entry["wilson_95"]
    return f"{100 * entry['success']:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def jerk(entry: dict[str, Any]) -> str:
    return f"{number(entry['boundary_jerk'])} / {number(entry['interior_jerk'])}"


def reaction(entry: dict[str, Any]) -> str:
    seconds = entry["reaction"]
    wait = "-" if seconds is None else f"{1e3 * seconds:.0f}"
    return f"{wait}; {100 * entry['blocked_share']:.0f}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    main()
