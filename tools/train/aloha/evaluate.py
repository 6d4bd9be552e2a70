# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Success of an ALOHA checkpoint in the simulator, in virtual time, on seeds never trained on.

    python -m tools.train.aloha.evaluate --checkpoint phyai_ros/checkpoints/act_aloha_small

A chunk observed at tick t is first used at tick t + delay, from its row ``delay``; it is executed
until the next one takes over, ``execution`` ticks later. So is the handoff's schedule.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha.world import World
from tools.train import trials
from tools.train.aloha.data import SHARE, spoken
from tools.train.aloha.demonstrations import STEP
from tools.train.trials import share

LIMIT = 10.0
"""An episode's time, s."""


def commanded(row: np.ndarray) -> dict[str, float]:
    """A chunk's row in the policy's numbers -> joint goals by name, rad."""
    goal = np.array(row, np.float64)
    grippers = list(kin.GRIPPERS)
    goal[grippers] = kin.angle(SHARE[0] + goal[grippers] * (SHARE[1] - SHARE[0]))
    return dict(zip(kin.JOINTS, goal.tolist(), strict=True))


def episode(policy: Any, world: World, seed: int, delay: int, execution: int) -> dict[str, Any]:
    """One seeded episode."""
    from phyai_ros.engine.types import Observation

    world.reset(seed)
    start = world.state().joints
    chunk: np.ndarray | None = None
    first, began = 0, 0
    coming: tuple[int, np.ndarray] | None = None
    commands, took = [], []
    for tick in range(round(LIMIT / STEP)):
        if coming is not None and tick >= coming[0] + delay:
            (first, chunk), coming, began = coming, None, tick
        if coming is None and (chunk is None or tick + delay >= began + execution):
            images = {key: world.render(key.rsplit(".", 1)[-1]) for key in policy.spec.cameras}
            state = spoken(world.state().joints)
            before = time.perf_counter()
            actions = policy.infer(
                Observation(images, state, world.instruction, world.time)
            ).actions
            took.append(time.perf_counter() - before)
            coming = tick, actions
        if chunk is not None:
            row = chunk[min(tick - first, len(chunk) - 1)]
            commands.append(row)
            world.set_command(commanded(row))
        world.step(STEP)
        if world.success():
            break
    jerk = np.abs(np.diff(np.array(commands)[:, list(kin.ARMS)], 3, axis=0)).max() / STEP**3
    left = np.abs(world.state().joints - start)[:6].max()
    return {
        "seed": seed,
        "cube": [round(float(v), 3) for v in world.state().cube],
        "success": world.success(),
        "time": world.time,
        "distance": world.distance,
        "left": float(left),
        "jerk": float(jerk),
        "inference": float(np.median(took)),
    }


def run(job: tuple[str, int, int, int]) -> dict[str, Any]:
    checkpoint, seed, delay, execution = job
    import torch

    from phyai_ros.engine.policy import load_policy

    torch.set_num_threads(1)
    state = globals().setdefault("_LOADED", {})
    if checkpoint not in state:
        state[checkpoint] = load_policy(checkpoint), World()
    return episode(*state[checkpoint], seed, delay, execution)


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    def median(key: str, digits: int = 4) -> float:
        return round(float(np.median([r[key] for r in results])), digits)

    return {
        **share(results),
        "median_time_s": median("time", 2),
        "median_distance_m": median("distance"),
        "worst_left_rad": round(max(r["left"] for r in results), 4),
        "median_peak_jerk": median("jerk", 1),
        "median_inference_s": median("inference"),
        "failed": [
            (r["seed"], r["cube"], round(r["distance"], 3)) for r in results if not r["success"]
        ],
    }


def main() -> None:
    args = trials.parser(__doc__, delay=5, execution=20, tick=STEP).parse_args()
    jobs = [(str(args.checkpoint), seed, args.delay, args.execution) for seed in trials.seeds(args)]
    trials.report(args, "tools.train.aloha.evaluate", jobs, run, summary, {})


if __name__ == "__main__":
    main()
