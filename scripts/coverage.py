# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How much of phyai_ros/control and phyai_ros/nodes the tests run, the nodes' own processes
included; appends a row to benchmarks/results/coverage.jsonl.

    python scripts/coverage.py [--least 90] [pytest arguments]

What a process does before it is killed on purpose is not in it: nobody can write it down then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".build" / "coverage"
ROOMS = ("control", "nodes")
TESTS = (
    "test/control",
    "test/nodes",
    "test/tools/test_arguments.py",
    "test/tools/test_graph.py",
    "test/fuzz/test_messages.py",
    "test/fuzz/test_arguments.py",
    "test/integration",
)

APART = ("test/integration",)
PATIENCE = 600
"""Seconds for a test: pytest-timeout ends the whole process, and every line takes longer here."""
SWEEP = "from phyai_ros.tools import shared_memory; shared_memory.sweep()"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=float, default=90.0, help="percent; below is status 1")
    options, words = parser.parse_known_args()
    DATA.mkdir(parents=True, exist_ok=True)
    for old in DATA.glob("data*"):
        old.unlink()
    coverage = [sys.executable, "-m", "coverage"]
    tests = [word for word in words if not word.startswith("-")] or list(TESTS)
    rest = ["--timeout", str(PATIENCE), *(word for word in words if word.startswith("-"))]
    failed = []
    for piece in pieces(tests):
        # Tests kill nodes on purpose; what those leave in shared memory adds up.
        subprocess.call([sys.executable, "-c", SWEEP], cwd=ROOT)
        command = [*coverage, "run", "-m", "pytest", "-q", "-p", "no:cacheprovider", *rest, piece]
        print(f"coverage: {piece}", flush=True)
        if subprocess.call(command, cwd=ROOT):
            failed.append(piece)
    subprocess.check_call([*coverage, "combine", "-q"], cwd=ROOT)
    subprocess.check_call([*coverage, "json", "-q", "-o", str(DATA / "coverage.json")], cwd=ROOT)
    subprocess.call([*coverage, "report", "--skip-covered", "--show-missing"], cwd=ROOT)
    row = rooms(json.loads((DATA / "coverage.json").read_text())["files"])
    row |= {"tests": tests, "failed": failed, "passed": not failed}
    print(json.dumps(row))
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import record  # type: ignore[import-not-found]

    entry = record.row("coverage", row)
    record.save("coverage.jsonl", {**entry, "command": "python scripts/coverage.py"})
    low = [room for room in ROOMS if row[room]["lines"] < options.least]
    for room in low:
        print(f"phyai_ros/{room}: expected {options.least:g} %, found {row[room]['lines']} %")
    for piece in failed:
        print(f"{piece}: failed")
    return 1 if low or failed else 0


def pieces(tests: Sequence[str]) -> list[str]:
    """What one pytest each runs: the files of a folder whose tests have processes of their own, one
    by one, so that a test that hangs or takes its interpreter along costs its own file alone."""
    found = []
    for test in tests:
        files = sorted((ROOT / test).glob("test_*.py")) if test in APART else []
        found += [str(file.relative_to(ROOT)) for file in files] or [test]
    return found


def rooms(files: dict) -> dict:
    """Percent of lines and of branches, by room."""
    found: dict = {}
    for room in ROOMS:
        parts = [f["summary"] for name, f in files.items() if f"phyai_ros/{room}/" in name]
        sums = {
            key: sum(part[key] for part in parts)
            for key in ("covered_lines", "num_statements", "covered_branches", "num_branches")
        }
        found[room] = {
            "lines": round(100 * sums["covered_lines"] / sums["num_statements"], 1),
            "branches": round(100 * sums["covered_branches"] / sums["num_branches"], 1),
            "statements": sums["num_statements"],
        }
    return found


if __name__ == "__main__":
    sys.exit(main())
