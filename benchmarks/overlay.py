# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ``overlay:=true`` costs the control tick: runs with and without it, in turns.

Both pictures are listened to, so that they are drawn. Adds a row to
benchmarks/results/overlay.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from typing import Any

import children
import numpy as np
import record
from sensor_msgs.msg import Image

from phyai_ros.nodes import qos
from phyai_ros.nodes.participant import Participant
from phyai_ros.nodes.topics import OVERLAY


class Audience:
    """Listens to both overlay topics on a thread of its own."""

    def __init__(self) -> None:
        self.pictures = 0
        self._here = Participant("bench_audience")
        for role in ("scene", "wrist"):
            self._here.node.create_subscription(Image, f"{OVERLAY}/{role}", self._on, qos.overlay())
        self._here.start()

    def _on(self, message: Image) -> None:
        self.pictures += 1

    def close(self) -> None:
        self._here.close()


def run(overlay: bool, seconds: int) -> tuple[dict[str, Any], int]:
    """A report's ticks, and how many pictures came."""
    os.environ["ROS_DOMAIN_ID"] = str(random.randint(1, 100))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    audience = Audience()
    words = ["sim:=true", f"duration:={seconds}", f"overlay:={str(overlay).lower()}"]
    try:
        report = children.up(*words)
    finally:
        audience.close()
    return report["ticks"], audience.pictures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="of each run")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    done = [
        run(overlay, options.seconds) for _ in range(options.pairs) for overlay in (False, True)
    ]
    values: dict[str, Any] = {}
    for name, runs in (("without", done[::2]), ("with", done[1::2])):
        values[name] = {
            "ticks": sum(ticks["total"] for ticks, _ in runs),
            "jitter_p50_ms": [round(1e3 * ticks["jitter"]["p50"], 3) for ticks, _ in runs],
            "jitter_p99_ms": [round(1e3 * ticks["jitter"]["p99"], 3) for ticks, _ in runs],
            "deadline_misses": sum(ticks["deadline_misses"] for ticks, _ in runs),
            "starved_ticks": sum(ticks["starved"] for ticks, _ in runs),
            "pictures": sum(pictures for _, pictures in runs),
        }
    worst = float(np.median(values["with"]["jitter_p99_ms"]))
    kept = values["with"]["deadline_misses"] == 0 and worst < 2.0 and values["with"]["pictures"] > 0
    what = "up sim:=true at 20 Hz with and without overlay:=true, both pictures listened to"
    wanted = {"jitter_p99_ms_below": 2.0, "deadline_misses": 0}
    entry = record.row("overlay", {"what": what, **values, "wanted": wanted, "passed": kept})
    record.save("overlay.jsonl", entry)
    print(json.dumps(entry))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
