# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Success of an embedded policy through the real nodes: real DDS, real time, held-out episodes.

Runs ``phyai-ros up`` with the simulator; instructions and scenes are drawn from the seed. Adds a
row to benchmarks/results/closed_loop.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys

import children
import record

WANTED = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gr00t")
    parser.add_argument("--robot", default="ur10e")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=20_000, help="of the first episode")
    options = parser.parse_args()
    os.environ["ROS_DOMAIN_ID"] = str(random.randint(1, 100))
    words = (
        f"model:={options.model}",
        f"robot:={options.robot}",
        "sim:=true",
        f"episodes:={options.episodes}",
        f"seed:={options.seed}",
    )
    report = children.up(*words)
    success, ticks = report["success"], report["ticks"]
    kept = success["of"] == options.episodes and success["rate"] >= WANTED
    entry = record.row(
        "closed_loop",
        {
            "what": "phyai-ros up " + " ".join(words),
            "success": success,
            "inference_p50_ms": round(1e3 * report["inference"]["p50"], 1),
            "inference_p99_ms": round(1e3 * report["inference"]["p99"], 1),
            "tick_jitter_p99_ms": round(1e3 * ticks["jitter"]["p99"], 3),
            "deadline_misses": ticks["deadline_misses"],
            "starved_ticks": ticks["starved"],
            "action_age_ms": {k: v and round(1e3 * v) for k, v in _means(report["action_age"])},
            "real_time_factor": report["real_time_factor"],
            "problems": report["problems"],
            "wanted": {"episodes": options.episodes, "success_at_least": WANTED},
            "passed": kept,
        },
    )
    record.save("closed_loop.jsonl", entry)
    print(json.dumps(entry))
    return 0 if kept else 1


def _means(ages: dict) -> list[tuple[str, float | None]]:
    return [(k, v.get("mean") if isinstance(v, dict) else v) for k, v in ages.items()]


if __name__ == "__main__":
    sys.exit(main())
