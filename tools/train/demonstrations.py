# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Make demonstrations: random states of the cell, both cameras, the expert's next chunk.

    python -m tools.train.demonstrations --out DIR --samples 200000

Single states instead of episodes: no two samples are alike, and the arm is also where only a policy
that errs would bring it. The result depends on the seed alone, not on the number of processes
(pictures: and on the renderer).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np

from phyai_ros.sim import expert
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.sampling import sample_state
from phyai_ros.sim.scene import CAMERAS, COLOURS
from phyai_ros.sim.state import State
from phyai_ros.sim.world import World
from tools.train import follow
from tools.train.dataset import DONE
from tools.train.images import SIDES, prepare
from tools.train.wordings import instructions, reword

HORIZON, STATE, VIEWS, STEP = 16, 7, len(CAMERAS), 0.05
BLOCK = 256
"""Samples drawn from one random generator and rendered in one go."""
BELT_SHARE = 0.1
"""Blocks of samples with a conveyor in the picture, so that its sight is no surprise."""


TASKS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "reach": (tuple(SIDES), (HORIZON, STATE)),
    "follow": (("pi05",), (follow.MAX_DELAY + 1, HORIZON, STATE)),
}
"""Task -> families whose pictures are kept, shape of what the chunk array has of one sample."""


def layout(task: str, samples: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Array name -> (shape, dtype)."""
    families, chunk = TASKS[task]
    arrays: dict[str, tuple[tuple[int, ...], str]] = {
        f"images_{family}": ((samples, VIEWS, 3, SIDES[family], SIDES[family]), "uint8")
        for family in families
    }
    return arrays | {
        "state": ((samples, STATE), "float32"),
        "chunk": ((samples, *chunk), "float32"),
        "text": ((samples,), "int32"),
        "blocks": ((samples, 2 * len(COLOURS)), "float32"),
        "goal": ((samples, 6), "float32"),
    }


def draw(rng: np.random.Generator, belt: float | None) -> State:
    """A training state; with ``belt`` the target block lies at that x."""
    state = sample_state(rng)
    while belt is not None and abs(state.target_block[0] - belt) > 0.02:
        state = sample_state(rng)
    return state


def fill(
    world: World, belt: float | None, seed: int, number: int, arrays: dict[str, np.ndarray]
) -> None:
    """Sample block ``number``."""
    rng = np.random.default_rng([seed, number])
    for i in range(number * BLOCK, (number + 1) * BLOCK):
        state = draw(rng, belt)
        joints = keep(world, state, rng, i, arrays)
        arrays["chunk"][i] = expert.chunks(joints, state.target_block, 0.0, HORIZON, STEP)


def fill_follow(
    world: World, belt: float | None, seed: int, number: int, arrays: dict[str, np.ndarray]
) -> None:
    """Sample block ``number`` of the task follow."""
    rng = np.random.default_rng([seed, number])
    for i in range(number * BLOCK, (number + 1) * BLOCK):
        moment = follow.draw(rng, belt)
        joints = keep(world, moment.state, rng, i, arrays)
        arrays["chunk"][i] = follow.chunks(moment, joints, HORIZON)


def keep(
    world: World, state: State, rng: np.random.Generator, i: int, arrays: dict[str, np.ndarray]
) -> np.ndarray:
    """Sample ``i`` of a state, all but its chunk; the joints [7] as the world has them."""
    world.set_state(state)
    joints = world.state().joints
    for view, camera in enumerate(CAMERAS):
        picture = world.render(camera)
        for family in SIDES:
            if f"images_{family}" in arrays:
                arrays[f"images_{family}"][i, view] = prepare(family, picture)
    arrays["state"][i] = joints
    text = reword(state.instruction, state.target, rng)
    arrays["text"][i] = instructions().index(text)
    arrays["blocks"][i] = [v for c in COLOURS for v in state.blocks[c][:2]]
    arrays["goal"][i] = expert.goal(state.target_block)[:6]
    return joints


FILL = {"reach": (fill, BELT_SHARE), "follow": (fill_follow, follow.BELT_SHARE)}


def work(task: str, directory: str, seed: int, numbers: multiprocessing.Queue, device: int) -> None:
    import torch

    os.environ.setdefault("MUJOCO_EGL_DEVICE_ID", str(device))

    torch.set_num_threads(1)
    names = layout(task, 0)
    arrays = {name: np.load(Path(directory) / f"{name}.npy", mmap_mode="r+") for name in names}
    fill_block, share = FILL[task]
    belt = Conveyor(0.1).x
    plain = World(0)
    belted = World(0, conveyor=Conveyor(0.1))
    while (number := numbers.get()) is not None:
        with_belt = np.random.default_rng([seed, number, 1]).random() < share
        if with_belt:
            fill_block(belted, belt, seed, number, arrays)
        else:
            fill_block(plain, None, seed, number, arrays)


def make(task: str, directory: Path, samples: int, seed: int, processes: int, devices: int) -> None:
    started = time.monotonic()
    blocks = -(-samples // BLOCK)
    directory.mkdir(parents=True, exist_ok=True)
    for name, (shape, dtype) in layout(task, blocks * BLOCK).items():
        np.lib.format.open_memmap(directory / f"{name}.npy", "w+", dtype, shape).flush()
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for number in [*range(blocks), *[None] * processes]:
        numbers.put(number)
    workers = [
        context.Process(target=work, args=(task, str(directory), seed, numbers, i % devices))
        for i in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [w.exitcode for w in workers if w.exitcode]
    if failed:
        raise RuntimeError(f"{len(failed)} of {processes} renderers failed: exit codes {failed}")
    seconds = time.monotonic() - started
    meta = {
        "task": task,
        "samples": blocks * BLOCK,
        "seed": seed,
        "seconds": round(seconds, 1),
        "instructions": instructions(),
        "step": STEP,
    }
    (directory / DONE).write_text(json.dumps(meta))
    print(
        f"demonstrations: {blocks * BLOCK} samples in {seconds:.1f} s "
        f"({blocks * BLOCK / seconds:.0f}/s, {processes} processes)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, default="reach")
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--devices", type=int, default=1, help="GPUs to spread the rendering over")
    args = parser.parse_args()
    make(args.task, args.out, args.samples, args.seed, args.processes, args.devices)


if __name__ == "__main__":
    main()
