# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Success of a checkpoint in the simulator, in virtual time, on seeds that training never drew.

    python -m tools.train.evaluate --checkpoint phyai_ros/checkpoints/gr00t_ur10e_small

Each seed is run as it is and once more with another block asked for (``--other``): a policy that
ignores the words fails one of the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phyai_ros.sim import task
from phyai_ros.sim.scene import COLOURS
from tools.train import trials
from tools.train.trials import share


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
    parser = trials.parser(__doc__, delay=2, execution=8, tick=0.05)
    parser.add_argument("--precision", default="float32", help="fp8 is emulated on a CPU")
    parser.add_argument("--other", action="store_true", help="also ask for another block")
    args = parser.parse_args()
    jobs = [
        (str(args.checkpoint), args.precision, seed, other, args.delay, args.execution)
        for seed in trials.seeds(args)
        for other in ([False, True] if args.other else [False])
    ]
    trials.report(args, "tools.train.evaluate", jobs, run, summary, {"precision": args.precision})


if __name__ == "__main__":
    main()
