# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The published sizes: a sharded checkpoint of random weights is written, loaded in bfloat16 by a
fresh process, and answers a request of raw images.

    python benchmarks/full_size.py [pi05 gr00t smolvla] [--device cuda] [--out FOLDER]

Adds a row for each to benchmarks/results/full_size.jsonl and exits with 1 where loading took more
host memory than the largest shard and 1 GB, or no finite answer came.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import load
import record
import synthetic_checkpoint

PUBLISHED = {"pi05": 3.3, "gr00t": 3.1, "smolvla": 0.45}
"""Billions of parameters."""


def measure(family: str, device: str, shard: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        synthetic_checkpoint.make(family, folder, shard=shard)
        writing = time.perf_counter() - started
        load.forget(folder)
        shards = len(list(folder.glob("model*.safetensors")))
        cold = load.measure(folder, device, infer=True)
        warm = load.measure(folder, device)
    most = cold.largest + load.ROOM
    beyond = max(cold.extra_bytes, warm.extra_bytes)
    size = cold.file_bytes / load.GIGA
    return {
        "what": f"{family} at the published size, bfloat16, on {device}",
        "family": family,
        "parameters": cold.parameters,
        "shards": shards,
        "file_gb": round(size, 2),
        "largest_shard_gb": round(cold.largest / load.GIGA, 2),
        "written_s": round(writing, 1),
        "loaded_from_disk_s": round(cold.seconds, 2),
        "loaded_from_page_cache_s": round(warm.seconds, 2),
        "s_per_gb_from_disk": round(cold.seconds / size, 2),
        "s_per_gb_from_page_cache": round(warm.seconds / size, 2),
        "host_beyond_model_gb": round(beyond / load.GIGA, 2),
        "first_answer_s": round(cold.first_s, 2),
        "largest_action": cold.largest_action,
        "wanted": {
            "host_beyond_model_gb_at_most": round(most / load.GIGA, 2),
            "billion_parameters_about": PUBLISHED[family],
        },
        "passed": beyond <= most
        and abs(cold.parameters / 1e9 / PUBLISHED[family] - 1) < 0.15
        and cold.largest_action > 0,
    }


def configure(device: str = "cuda") -> dict[str, Any]:
    """pi0.5 from local shards to every prompt length captured, in a fresh process whose kernels
    were compiled and tuned before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthetic_checkpoint.make("pi05", folder)
        first = load.measure(folder, device, warm=True)
        again = load.measure(folder, device, warm=True)
    seconds = again.seconds + again.warm_s
    memory = again.device_bytes / load.GIGA
    return {
        "work": "configure",
        "what": f"pi0.5 at the published size, bfloat16: {again.buckets} buckets, batch 1",
        "loaded_s": round(again.seconds, 2),
        "warm_s": round(again.warm_s, 2),
        "configure_s": round(seconds, 1),
        "configure_first_time_s": round(first.seconds + first.warm_s, 1),
        "memory_GB": round(memory, 2),
        "buckets": again.buckets,
        "wanted": {"configure_s": 30.0, "memory_GB": 9.0},
        "passed": seconds <= 30.0 and memory <= 9.0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*", help=f"of {', '.join(PUBLISHED)}; default: all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shard-mb", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="folder for the rows instead of results/")
    options = parser.parse_args()
    if unknown := set(options.families) - set(PUBLISHED):
        parser.error(f"no {', '.join(sorted(unknown))}; there are: {', '.join(PUBLISHED)}")
    kept = True
    for family in options.families or PUBLISHED:
        found = measure(family, options.device, options.shard_mb * synthetic_checkpoint.MEBI)
        entry = record.row("full_size", found)
        record.save("full_size.jsonl", entry, options.out)
        print(json.dumps(entry), flush=True)
        kept = kept and entry["passed"]
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
