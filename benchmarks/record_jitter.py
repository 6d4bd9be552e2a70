# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Does recording disturb the control timer? Jitter of handoff_node with and without it.

The graph of benchmarks/handoff.py (handoff at 100 Hz, policy_node inferring, three 640x480 cameras
at 30 Hz), watched in turns: a stretch without the recorder, one with it, and so on, in one run, so
that what else the machine does falls on both; every other turn in the other order. With
``--plainly`` stretches of a recorder that writes its file without regard for others take turns too.
How much a recorder disturbs depends on how full the machine's page cache is, so the row says it.
Adds a row to benchmarks/results/record.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import children
import handoff
import numpy as np
import record

SETTLE = 2.0
"""Seconds after the recorder began or ended that are left out."""
WORST_MISSED = 0
RECORDERS = {
    "with": ("-m", "phyai_ros.tools", "record"),
    "plainly": (Path(__file__).with_name("record_plainly.py"),),
}
ALLOWED = 0.5
"""ms by which recording may raise the p99: a quarter of the bound on the whole."""


def stretch(watcher: handoff.Watcher, seconds: float) -> tuple[list[float], int]:
    """Jitter of the ticks of so many seconds, ms, and how many were missed."""
    watcher.spin(SETTLE)
    first = len(watcher.states)
    watcher.spin(seconds)
    states = watcher.states[first:]
    missed = states[-1].missed_ticks - states[0].missed_ticks
    return [abs(s.tick_jitter) * 1e3 for s in states], missed


def measure(arguments: argparse.Namespace, folder: Path) -> dict:
    kinds = ("without", "with", *(["plainly"] if arguments.plainly else []))
    jitter: dict[str, list[float]] = {kind: [] for kind in kinds}
    missed = dict.fromkeys(kinds, 0)
    recorded = 0
    free = free_mb()
    total = len(kinds) * arguments.turns * (arguments.seconds + SETTLE + 10.0)
    with handoff.running(arguments, folder, total) as watcher:
        robot = folder / "ur10e_bench.yaml"
        for turn in range(arguments.turns):
            for kind in kinds[:: -1 if turn % 2 else 1]:
                if kind == "without":
                    found, lost = stretch(watcher, arguments.seconds)
                else:
                    bag = folder / f"{kind}{turn}"
                    words = (*RECORDERS[kind], "--robot", robot, "--out", bag)
                    with children.python(
                        *words, "--storage", arguments.storage, stop=signal.SIGINT,
                        env=dict(os.environ), stdin=subprocess.PIPE, stdout=sys.stderr,
                    ):  # fmt: skip
                        watcher.spin(4.0)  # Python starts, the subscriptions are matched
                        found, lost = stretch(watcher, arguments.seconds)
                    recorded += sum(f.stat().st_size for f in bag.iterdir())
                jitter[kind] += found
                missed[kind] += lost
    return {
        "storage": arguments.storage,
        "turns": arguments.turns,
        "free_memory_mb": free,
        **{f"ticks_{kind}": len(jitter[kind]) for kind in kinds},
        **{f"jitter_p50_ms_{kind}": _percentile(jitter[kind], 50) for kind in kinds},
        **{f"jitter_p99_ms_{kind}": _percentile(jitter[kind], 99) for kind in kinds},
        **{f"missed_{kind}": missed[kind] for kind in kinds},
        "recorded_mb": round(recorded / 1e6, 1),
        "realtime_priority": arguments.realtime_priority,
    }


def _percentile(values: list[float], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 4)


def free_mb() -> int:
    """Memory that holds nothing, not even a cached file."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemFree:")) >> 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one stretch")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--plainly", action="store_true")
    parser.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap")
    parser.add_argument("--execution-horizon", type=int, default=4, help="rows of 50 ms")
    parser.add_argument("--realtime-priority", type=int, default=50)
    arguments = parser.parse_args()
    found = handoff.alone(measure, arguments)
    added = found["jitter_p99_ms_with"] - found["jitter_p99_ms_without"]
    passed = added <= ALLOWED and found["missed_with"] - found["missed_without"] <= WORST_MISSED
    entry = record.row(
        "record",
        {
            "what": "handoff_node at 100 Hz with and without phyai-ros record, in turns",
            **found,
            "wanted": {"p99_ms_added_at_most": ALLOWED, "missed_ticks_added": WORST_MISSED},
            "passed": passed,
        },
    )
    record.save("record.jsonl", entry)
    print(json.dumps(entry))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
