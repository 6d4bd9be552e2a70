# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A soak (docs/soak.md), and a row of it.

    python benchmarks/soak.py [--minutes 30] [arguments of phyai-ros soak]

Adds a row to benchmarks/results/soak.jsonl and exits as the soak does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from typing import Any

import record

OUT = record.ROOT / "runs" / "soak"


def main() -> int:
    device = record.row("soak", {})["device"]  # before it, for its load
    words = [sys.executable, "-m", "phyai_ros.tools", "soak", *sys.argv[1:], "--out", str(OUT)]
    report = OUT / "soak.json"
    report.unlink(missing_ok=True)
    status = subprocess.call(words, cwd=record.ROOT)
    if not report.is_file():
        return status or 1
    found = json.loads(report.read_text(encoding="utf-8"))
    entry = record.row("soak", {**summary(found), "status": status})
    record.save("soak.jsonl", {**entry, "device": device})
    return status


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Of a soak.json: a kind of fault in one line, the worst of its times."""
    kinds: dict[str, dict[str, Any]] = defaultdict(dict)
    for fault in found["faults"]:
        kind = kinds[fault["kind"]]
        kind["count"] = kind.get("count", 0) + 1
        for key in ("named_s", "recovered_s"):
            if fault[key] is not None:
                kind[key] = max(kind.get(key, 0.0), round(fault[key], 3))
    keys = ("minutes", "seed", "patience", "sim_time", "robot", "model", "seconds", "passed")
    return {
        **{key: found[key] for key in keys},
        "faults": len(found["faults"]),
        "kinds": kinds,
        "counts": found["counts"],
        "memory": found["memory"],
        "bags": len(found["bags"]),
        "bag_gap_s": max((round(b["gap_s"], 3) for b in found["bags"]), default=None),
        "disk": found["disk"],
        "problems": found["problems"],
        "late": found["late"],
    }


if __name__ == "__main__":
    sys.exit(main())
