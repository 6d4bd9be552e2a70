# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Three cameras and joint states into one observation: how many sets, and how fast.

Compares this package's path with deserialise, copy, pair by approximate time. The two take turns in
one run, against the same source; a third process is the source. Adds a row to
benchmarks/results/ingest.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from subprocess import PIPE

import children
import numpy as np
import record

HERE = Path(__file__).resolve().parent
LEAST_SHARE, WORST_RATIO = 0.99, 0.75


def run_once(path: str, seconds: float, environment: dict[str, str]) -> dict:
    """One source and one sink of kind ``path``."""
    pipes: dict = {"env": environment, "stdin": PIPE, "stdout": PIPE, "text": True}
    with (
        children.python(HERE / "camera_sink.py", path, **pipes) as sink,
        children.python(HERE / "camera_source.py", "--seconds", str(seconds), **pipes) as source,
    ):
        sets = source.communicate()[0].split()
        if source.returncode != 0:
            raise SystemExit(f"ingest: camera_source ended with status {source.returncode}")
        result = json.loads(sink.communicate("stop\n", timeout=30)[0])
    result["sets"] = int(sets[1])
    return result


def summarise(path: str, runs: list[dict]) -> dict:
    latencies = np.array([value for run in runs for value in run["latencies"]]) * 1e3
    handed_over = np.array([value for run in runs for value in run["handed_over"]]) * 1e3
    sets = sum(run["sets"] for run in runs)
    p50, p99 = np.percentile(latencies, (50, 99))
    cpu = sum(run["cpu_s"] for run in runs)
    return {
        "path": path,
        "sets": sets,
        "assembled_share": round(len(latencies) / sets, 4),
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "handed_over_p50_ms": round(float(np.median(handed_over)), 3),
        "cpu_ms_per_set": round(cpu / sets * 1e3, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one turn")
    parser.add_argument("--turns", type=int, default=3, help="of each path")
    arguments = parser.parse_args()
    runs: dict[str, list[dict]] = {"phyai": [], "classic": []}
    environment = {
        **os.environ,
        "ROS_DOMAIN_ID": str(random.randint(1, 100)),
        "ROS_LOCALHOST_ONLY": "1",
    }
    for _ in range(arguments.turns):
        for path, done in runs.items():
            done.append(run_once(path, arguments.seconds, environment))
    ours, classic = (summarise(path, done) for path, done in runs.items())
    ratio = round(ours["p50_ms"] / classic["p50_ms"], 3)
    passed = ours["assembled_share"] >= LEAST_SHARE and ratio <= WORST_RATIO
    entry = record.row(
        "ingest",
        {
            "what": "3 cameras 640x480 rgb8 at 30 Hz, joints at 100 Hz; stamp -> observation",
            "ours": ours,
            "classic": classic,
            "p50_ratio": ratio,
            "wanted": {"assembled_share": LEAST_SHARE, "p50_ratio_at_most": WORST_RATIO},
            "passed": passed,
        },
    )
    record.save("ingest.jsonl", entry)
    print(json.dumps(entry))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
