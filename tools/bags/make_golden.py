# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Makes test/data/bags anew: after an embedded checkpoint or a message has changed.

For each embedded family: a live run in the simulator, recorded by ``phyai-ros record``; some
seconds of it, packed; and what a replay of them gives, with the bag's requests and with its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "test" / "data" / "bags"
FAMILIES = {"gr00t": "gr00t_ur10e_small", "pi05": "pi05_ur10e_small"}
DOMAIN = "66"
SECONDS = 4.0
RECORDED = 45.0
"""Seconds in which the policy has to load and to answer for SECONDS."""
MODES = ("recorded", "own")


def tool(*words: object) -> list[str]:
    return [sys.executable, "-m", "phyai_ros.tools", *map(str, words)]


def live_run(model: str, folder: Path) -> Path:
    """A bag of a simulated run."""
    environment = dict(
        os.environ,
        ROS_DOMAIN_ID=DOMAIN,
        ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
        OMP_NUM_THREADS="1",
    )
    bag = folder / "bag"
    words = (f"model:={model}", "robot:=ur10e", "sim:=true", f"out:={folder / 'run'}")
    said = "instruction:=reach the green block"
    run = subprocess.Popen(tool("up", *words, said), env=environment, stdin=subprocess.DEVNULL)
    try:
        more = ("--out", bag, "--duration", RECORDED)
        subprocess.run(tool("record", "--robot", "ur10e", *more), env=environment, check=True)
    finally:
        run.terminate()
        run.wait(30)
    return bag


def make(model: str, checkpoint: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bag = live_run(model, Path(folder))
        packed = DATA / model
        shutil.rmtree(packed, ignore_errors=True)
        pack = [sys.executable, str(Path(__file__).with_name("pack.py")), str(bag), str(packed)]
        subprocess.run([*pack, "--duration", str(SECONDS)], check=True)
        for mode in MODES:
            out = Path(folder) / f"{mode}.npz"
            policy = ("--checkpoint", checkpoint, "--robot", "ur10e", "--requests", mode)
            live = ("--live",) if mode == "recorded" else ()
            subprocess.run(tool("replay", packed, *policy, *live, "--out", out), check=True)
            shutil.copyfile(out, DATA / f"{model}.{mode}.npz")


def main() -> int:
    DATA.mkdir(parents=True, exist_ok=True)
    for model, checkpoint in FAMILIES.items():
        make(model, checkpoint)
    return 0


if __name__ == "__main__":
    sys.exit(main())
