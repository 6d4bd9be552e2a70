# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Many seeded episodes of a checkpoint, and what share of them succeeded."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from phyai_ros.control import metrics

HELD_OUT = 1_000_000
"""First episode seed; demonstrations come from other random streams altogether."""

Job = TypeVar("Job")


def share(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many of these episodes succeeded, and between what the rate lies."""
    good = sum(r["success"] for r in rows)
    low, high = metrics.wilson(good, len(rows))
    return {
        "success": good,
        "of": len(rows),
        "rate": round(good / max(1, len(rows)), 4),
        "wilson95": [round(low, 4), round(high, 4)],
    }


def parser(doc: str, delay: int, execution: int, tick: float) -> argparse.ArgumentParser:
    """What every evaluation asks; delay and execution: defaults, ticks of ``tick`` seconds."""
    asked = argparse.ArgumentParser(description=doc.split("\n")[0])
    asked.add_argument("--checkpoint", type=Path, required=True)
    asked.add_argument("--episodes", type=int, default=50)
    asked.add_argument("--first-seed", type=int, default=HELD_OUT)
    asked.add_argument(
        "--delay", type=int, default=delay, help=f"ticks of {tick} s to the first use"
    )
    asked.add_argument("--execution", type=int, default=execution, help="rows executed of a chunk")
    asked.add_argument("--processes", type=int, default=os.cpu_count())
    asked.add_argument("--record", action="store_true", help="add a row to benchmarks/results")
    return asked


def seeds(args: argparse.Namespace) -> range:
    return range(args.first_seed, args.first_seed + args.episodes)


def report(
    args: argparse.Namespace,
    module: str,
    jobs: Sequence[Job],
    run: Callable[[Job], dict[str, Any]],
    summary: Callable[[list[dict[str, Any]]], dict[str, Any]],
    more: Mapping[str, Any],
) -> None:
    """Run every job in processes of their own, print what came of it, and keep it if asked to."""
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        results = pool.map(run, jobs, chunksize=2)
    told = {
        "checkpoint": args.checkpoint.name,
        **more,
        "delay": args.delay,
        "execution": args.execution,
        **summary(results),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(told), flush=True)
    if args.record:
        from benchmarks import record

        command = " ".join([f"python -m {module}", *sys.argv[1:]])
        record.save("training.jsonl", record.row("evaluate", told | {"command": command}))
