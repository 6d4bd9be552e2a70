# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Success of a checkpoint in the simulator, in virtual time, on seeds that training never drew.

    python -m tools.train.evaluate --checkpoint phyai_ros/checkpoints/gr00t_ur10e_small

Each seed is run as it is and once more with another block asked for (``--other``): a policy that
ignores the words fails one of the two.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from phyai_ros.sim import task
from phyai_ros.sim.scene import COLOURS

HELD_OUT = 1_000_000
"""First episode seed; demonstrations come from other random streams altogether."""


def wilson(good: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a proportion, 95 % by default (Wilson 1927)."""
    if not total:
        return 0.0, 1.0
    p = good / total
    centre = p + z * z / (2 * total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def other_instruction(seed: int) -> str:
    """The seed's own wording with the next colour."""
    instruction, colour = task.draw_instruction(np.random.default_rng(seed))
    colours = list(COLOURS)
    other = colours[(colours.index(colour) + 1) % len(colours)]
    return instruction.replace(colour, other)


def run(job: tuple[str, str, int, bool, int, int]) -> dict[str, Any]:
    checkpoint, precision, seed, other, delay, execution = job
    import torch

    from phyai_ros.engine.policy import load_policy
    from phyai_ros.sim.world import World
    from tools.train.rollout import episode

    torch.set_num_threads(1)
    state = globals().setdefault("_LOADED", {})
    if checkpoint not in state:
        state[checkpoint] = load_policy(checkpoint, dtype=precision), World(0)
    policy, world = state[checkpoint]
    result = episode(
        policy,
        policy.spec.cameras,
        world,
        seed,
        delay=delay,
        execution=execution,
        instruction=other_instruction(seed) if other else None,
    )
    return result.asdict() | {"other": other}


def share(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many of these episodes succeeded, and between what the rate lies."""
    good = sum(r["success"] for r in rows)
    low, high = wilson(good, len(rows))
    return {
        "success": good,
        "of": len(rows),
        "rate": round(good / max(1, len(rows)), 4),
        "wilson95": [round(low, 4), round(high, 4)],
    }


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    own, other = ([r for r in results if r["other"] is flag] for flag in (False, True))
    done = [r["time"] for r in results if r["success"]]
    return {
        "own": share(own),
        "other_block": share(other),
        "by_colour": {c: share([r for r in results if r["target"] == c]) for c in COLOURS},
        "median_time_s": round(float(np.median(done)), 2) if done else None,
        "median_distance_m": round(float(np.median([r["distance"] for r in results])), 4),
        "median_peak_jerk": round(float(np.median([r["jerk"] for r in results])), 1),
        "median_inference_s": round(float(np.median([r["inference"] for r in results])), 4),
        "failed": [
            (r["seed"], r["instruction"], round(r["distance"], 3))
            for r in results
            if not r["success"]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--precision", default="float32", help="fp8 is emulated on a CPU")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=HELD_OUT)
    parser.add_argument("--delay", type=int, default=2, help="ticks of 0.05 s to the first use")
    parser.add_argument("--execution", type=int, default=8, help="rows executed of a chunk")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--other", action="store_true", help="also ask for another block")
    parser.add_argument("--record", action="store_true", help="add a row to benchmarks/results")
    args = parser.parse_args()
    started = time.monotonic()
    jobs = [
        (path, args.precision, args.first_seed + i, other, args.delay, args.execution)
        for path in [str(args.checkpoint)]
        for i in range(args.episodes)
        for other in ([False, True] if args.other else [False])
    ]
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        results = pool.map(run, jobs, chunksize=2)
    report = {
        "checkpoint": args.checkpoint.name,
        "precision": args.precision,
        "delay": args.delay,
        "execution": args.execution,
        **summary(results),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(report), flush=True)
    if args.record:
        from benchmarks import record

        command = " ".join(["python -m tools.train.evaluate", *sys.argv[1:]])
        record.save("training.jsonl", record.row("evaluate", report | {"command": command}))


if __name__ == "__main__":
    main()
