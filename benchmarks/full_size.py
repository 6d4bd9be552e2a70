# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The published sizes: a sharded checkpoint of random weights is written, loaded in bfloat16 by a
fresh process, captured for every prompt length, and answers a request of raw images; then again,
with its kernels compiled and its operators tuned; on a GPU then in FP8, where a family has that.

    python benchmarks/full_size.py [pi05 gr00t smolvla] [--device cuda] [--out FOLDER]

Adds a row for each to benchmarks/results/full_size.jsonl and exits with 1 where loading took more
host memory than the largest shard and 1 GB, the second time took longer than 30 s, the device holds
more than issue 4 allows, a GPU captured nothing, or no finite answer came. TMPDIR says where the
files go.
"""

from __future__ import annotations

import argparse
import json
import subprocess
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
CONFIGURE_S = 30.0
MEMORY_GB = {"pi05": 9.0}
FP8_MEMORY_GB = {"pi05": 6.0, "gr00t": None}
"""On the device, all prompt lengths captured, batch 1; None: no bound."""


def measure(family: str, device: str, shard_mb: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        # By another process: what drawing the weights takes of the device is not the engine's.
        script = str(Path(synthetic_checkpoint.__file__))
        words = [sys.executable, script, family, str(folder), "--shard-mb", str(shard_mb)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        writing = time.perf_counter() - started
        load.forget(folder)
        shards = len(list(folder.glob("model*.safetensors")))
        cold = load.measure(folder, device, infer=True, warm=True)
        warm = load.measure(folder, device, infer=True, warm=True)
        in_fp8 = None
        if device != "cpu" and family in FP8_MEMORY_GB:
            for _ in range(2):  # compiled and tuned, then as it will be
                in_fp8 = load.measure(folder, device, "fp8", infer=True, warm=True)
    most = cold.largest + load.ROOM
    beyond = max(cold.extra_bytes, warm.extra_bytes)
    size = cold.file_bytes / load.GIGA
    configure = warm.seconds + warm.warm_s
    memory = warm.device_bytes / load.GIGA
    row = {
        "what": f"{family} at the published size, bfloat16, on {device}; a fresh process each time",
        "family": family,
        "parameters": cold.parameters,
        "shards": shards,
        "storage": "memory" if name.startswith("/dev/shm") else "disk",
        "file_gb": round(size, 2),
        "largest_shard_gb": round(cold.largest / load.GIGA, 2),
        "written_s": round(writing, 1),
        "loaded_first_s": round(cold.seconds, 2),
        "loaded_again_s": round(warm.seconds, 2),
        "s_per_gb_first": round(cold.seconds / size, 2),
        "s_per_gb_again": round(warm.seconds / size, 2),
        "host_beyond_model_gb": round(beyond / load.GIGA, 2),
        "warm_first_s": round(cold.warm_s, 1),
        "warm_again_s": round(warm.warm_s, 1),
        "configure_s": round(configure, 1),
        "buckets": warm.buckets,
        "memory_GB": round(memory, 2),
        "first_answer_s": round(warm.first_s, 3),
        "largest_action": cold.largest_action,
    }
    if in_fp8:
        row["fp8_configure_s"] = round(in_fp8.seconds + in_fp8.warm_s, 1)
        row["fp8_memory_GB"] = round(in_fp8.device_bytes / load.GIGA, 2)
        row["fp8_buckets"] = in_fp8.buckets
        row["fp8_largest_action"] = in_fp8.largest_action
    judge(row, device, round(most / load.GIGA, 2))
    return row


def judge(row: dict[str, Any], device: str, most: float) -> None:
    """Adds what is wanted, and whether it was reached. most: GB of host memory beyond the model."""
    family, on_gpu = row["family"], device != "cpu"
    wanted: dict[str, float] = {"host_beyond_model_gb": most, "configure_s": CONFIGURE_S}
    if family in MEMORY_GB:
        wanted["memory_GB"] = MEMORY_GB[family]
    if on_gpu:
        wanted["buckets"] = 1
    if on_gpu and family in FP8_MEMORY_GB:
        wanted |= {"fp8_configure_s": CONFIGURE_S, "fp8_buckets": 1}
        if bound := FP8_MEMORY_GB[family]:
            wanted["fp8_memory_GB"] = bound
    near = abs(row["parameters"] / 1e9 / PUBLISHED[family] - 1) < 0.15
    row["wanted"] = wanted
    row["passed"] = near and record.keeps(row, wanted, ("buckets", "fp8_buckets"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*", help=f"of {', '.join(PUBLISHED)}; default: all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shard-mb", type=int, default=400, help="every family has several")
    parser.add_argument("--out", type=Path, help="folder for the rows instead of results/")
    options = parser.parse_args()
    if unknown := set(options.families) - set(PUBLISHED):
        parser.error(f"no {', '.join(sorted(unknown))}; there are: {', '.join(PUBLISHED)}")
    kept = True
    for family in options.families or PUBLISHED:
        found = measure(family, options.device, options.shard_mb)
        entry = record.row("full_size", found)
        record.save("full_size.jsonl", entry, options.out)
        print(json.dumps(entry), flush=True)
        kept = kept and entry["passed"]
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
