# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Make demonstrations in the ALOHA cell: random states, the policy's cameras, the expert's chunk.

    python -m tools.train.aloha.demonstrations --out DIR --minutes 2

Single states, as for the UR10e (``tools.train.demonstrations``). Blocks of samples are numbered and
drawn from (seed, number), so a block does not depend on who makes it; how many there are depends on
``--samples`` and ``--minutes``, whichever ends first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np

from phyai_ros.sim.aloha import expert
from phyai_ros.sim.aloha.sampling import sample_state
from phyai_ros.sim.aloha.world import World

CAMERAS = ("cam_high", "cam_low", "cam_right_wrist")
SIZE = (120, 160)
"""Height and width that the policy sees; rendered at twice that."""
HORIZON, STEP, JOINTS = 50, 0.02, 14
BLOCK = 256
"""Samples drawn from one random generator and rendered in one go."""
DONE = "meta.json"
"""Written last: the directory is complete once it exists."""


def layout(samples: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Array name -> (shape, dtype)."""
    return {
        "images": ((samples, len(CAMERAS), 3, *SIZE), "uint8"),
        "state": ((samples, JOINTS), "float32"),
        "chunk": ((samples, HORIZON, JOINTS), "float32"),
        "cube": ((samples, 2), "float32"),
    }


def prepare(picture: np.ndarray) -> np.ndarray:
    """uint8 [h, w, 3] -> uint8 [3, *SIZE], scaled as the checkpoint's preprocessor does it."""
    import torch

    from phyai_ros.engine.models.lerobot_images import planes, resize

    small = resize(planes(torch.from_numpy(picture)[None]), *SIZE)
    return (small[0].clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def fill(world: World, seed: int, number: int, arrays: dict[str, np.ndarray]) -> None:
    """Sample block ``number``. Joints in rad, grippers too."""
    rng = np.random.default_rng([seed, number])
    for i in range(number * BLOCK, (number + 1) * BLOCK):
        world.set_state(sample_state(rng))
        state = world.state()
        for view, camera in enumerate(CAMERAS):
            arrays["images"][i, view] = prepare(world.render(camera))
        arrays["state"][i] = state.joints
        arrays["chunk"][i] = expert.chunks(state.joints, state.cube, HORIZON, STEP)
        arrays["cube"][i] = state.cube


def work(
    directory: str, seed: int, numbers: multiprocessing.Queue, made: multiprocessing.Queue
) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ.setdefault("MUJOCO_EGL_DEVICE_ID", "0")
    arrays = {name: np.load(Path(directory) / f"{name}.npy", mmap_mode="r+") for name in layout(0)}
    world = World(width=2 * SIZE[1], height=2 * SIZE[0])
    while (number := numbers.get()) is not None:
        fill(world, seed, number, arrays)
        made.put(number)


def make(directory: Path, samples: int, seed: int, processes: int, minutes: float) -> None:
    started = time.monotonic()
    blocks = -(-samples // BLOCK)
    directory.mkdir(parents=True, exist_ok=True)
    for name, (shape, dtype) in layout(blocks * BLOCK).items():
        np.lib.format.open_memmap(directory / f"{name}.npy", "w+", dtype, shape).flush()
    context = multiprocessing.get_context("spawn")
    numbers, made = context.Queue(), context.Queue()
    workers = [
        context.Process(target=work, args=(str(directory), seed, numbers, made), daemon=True)
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    asked, done = min(blocks, 2 * processes), 0
    for number in range(asked):
        numbers.put(number)
    while done < asked:  # blocks are asked for in order, so those that are made leave no gap
        if all(not w.is_alive() for w in workers):
            raise RuntimeError(f"every renderer failed: {[w.exitcode for w in workers]}")
        try:
            made.get(timeout=5.0)
        except Exception:  # queue.Empty: look at the workers again
            continue
        done += 1
        if asked < blocks and time.monotonic() - started < 60 * minutes:
            numbers.put(asked)
            asked += 1
    for _ in workers:
        numbers.put(None)
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - started
    meta = {
        "samples": done * BLOCK,
        "seed": seed,
        "seconds": round(seconds, 1),
        "cameras": CAMERAS,
        "step": STEP,
    }
    (directory / DONE).write_text(json.dumps(meta))
    print(
        f"demonstrations: {done * BLOCK} samples in {seconds:.1f} s "
        f"({done * BLOCK / seconds:.0f}/s, {processes} processes)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=150_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="ask for no more after that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    make(args.out, args.samples, args.seed, args.processes, args.minutes)


if __name__ == "__main__":
    main()
