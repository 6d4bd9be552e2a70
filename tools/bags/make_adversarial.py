# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag of everything that sensors do wrong, for ``phyai-ros replay``.

Eleven seconds for a UR10e with two cameras on simulated time. What goes wrong when is in
``PHASES``; in between all is well, so each phase must be refused by name and got over.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from compose import CLOCK, COMPRESSED, IMAGE, JOINTS, SECOND, STRING, Composer

from phyai_ros.bags.writer import BagWriter

SCENE = "/camera/scene/image_raw"
WRIST = "/camera/wrist/image_raw/compressed"
STATES = "/joint_states"
NAMES = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
    "finger_joint",
)
HOME = (0.3, -1.2, 1.8, -2.2, -1.57, 0.1, 0.02)
START = 1_700_000_000 * SECOND
SIMULATED_START = 1_000 * SECOND
LENGTH = 11.0
CAMERA_RATE, JOINT_RATE = 20, 100
PHASES = {
    "padded": (0.0, 2.0),
    "bgr8": (1.0, 3.0),
    "broken": (3.0, 3.3),
    "equal_stamps": (3.5, 4.0),
    "gap": (4.4, 5.2),
    "frozen_wrist": (6.0, 7.2),
    "bad_joints": (7.5, 7.6),
    "scene_stopped": (9.8, LENGTH),
}
JUMP_AT, JUMP_BY = 8.4, -2.0
"""At so many seconds of the log, simulated time goes back by so many."""


def inside(phase: str, seconds: float) -> bool:
    begin, end = PHASES[phase]
    return begin <= seconds < end


def picture(number: int, camera: int, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    """uint8 [height, width, 3], RGB; smooth, so that it packs well, and never the same twice."""
    y, x = np.mgrid[: size[0], : size[1]]
    waves = [np.sin((x * (k + 1) + y * (camera + 1) + 3 * number) / 17.0) for k in range(3)]
    return (127.5 + 120.0 * np.stack(waves, axis=-1)).astype(np.uint8)


def positions(seconds: float) -> dict[str, float]:
    sway = 0.4 * np.sin(1.1 * seconds)
    return {n: p + (sway if n != "finger_joint" else 0.0) for n, p in zip(NAMES, HOME, strict=True)}


def make(path: Path, *, plain: bool = False, storage: str = "mcap") -> None:
    """plain: the same moments, with pixels packed tight, in rgb8, and joints in one order."""
    writer = BagWriter(path, storage, compress=storage == "mcap")
    bag = Composer(writer)
    rng = np.random.default_rng(7)
    bag.put("/instruction", STRING, START, bag.text("reach the red block"))
    bag.put("/instruction", STRING, START + SECOND // 2, bag.text("   "))
    steps = round(LENGTH * JOINT_RATE)
    for step in range(steps):
        seconds = step / JOINT_RATE
        log = START + step * SECOND // JOINT_RATE
        stamp = log - START + SIMULATED_START
        stamp += round(JUMP_BY * SECOND) if seconds >= JUMP_AT else 0
        bag.put("/clock", CLOCK, log, bag.clock(stamp))
        if inside("gap", seconds):
            continue
        _joints(bag, rng, seconds, log, stamp, plain)
        if step % (JOINT_RATE // CAMERA_RATE) == 0:
            number = step * CAMERA_RATE // JOINT_RATE
            _scene(bag, number, seconds, log + 1_000_000, stamp, plain)
            _wrist(bag, number, seconds, log + 2_000_000, stamp)
    writer.close()


def _joints(
    bag: Composer, rng: np.random.Generator, seconds: float, log: int, stamp: int, plain: bool
) -> None:
    now = positions(seconds)
    order = list(NAMES) if plain else [NAMES[i] for i in rng.permutation(len(NAMES))]
    message = bag.joints(stamp, now, order)
    if inside("bad_joints", seconds):
        number = round(seconds * JOINT_RATE) % 3
        if number == 0:
            message = bag.joints(stamp, {**now, "elbow_joint": float("nan")})
        elif number == 1:
            message = bag.joints(stamp, now, NAMES[:-1])
        else:
            message = bag.joints(0, now)
    bag.put(STATES, JOINTS, log, message)
    if inside("equal_stamps", seconds):
        away = {name: value + 0.5 for name, value in now.items()}
        bag.put(STATES, JOINTS, log + 500_000, bag.joints(stamp, away))


def _scene(bag: Composer, number: int, seconds: float, log: int, stamp: int, plain: bool) -> None:
    if inside("scene_stopped", seconds):
        return
    rgb = picture(number, 0)
    if inside("broken", seconds):
        message = bag.image(stamp, rgb, "16UC1")
        if number % 2:
            message = bag.image(stamp, rgb)
            message.data = message.data[:-100]
    else:
        encoding = "bgr8" if inside("bgr8", seconds) and not plain else "rgb8"
        padding = 13 if inside("padded", seconds) and not plain else 0
        message = bag.image(stamp, rgb, encoding, padding)
    bag.put(SCENE, IMAGE, log, message)
    if inside("equal_stamps", seconds):
        bag.put(SCENE, IMAGE, log + 500_000, bag.image(stamp, 255 - rgb))


def _wrist(bag: Composer, number: int, seconds: float, log: int, stamp: int) -> None:
    if inside("frozen_wrist", seconds):
        number = round(PHASES["frozen_wrist"][0] * CAMERA_RATE)
    rgb = picture(number, 1)
    message = bag.jpeg(stamp, rgb)
    if inside("broken", seconds):
        message = bag.jpeg(stamp, rgb, name="png")
        if number % 2:
            message = bag.compressed(stamp, "jpeg", np.arange(200, dtype=np.uint8))
    bag.put(WRIST, COMPRESSED, log, message)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder to write; must not exist")
    parser.add_argument("--plain", action="store_true", help="the twin without odd encodings")
    parser.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap")
    options = parser.parse_args()
    make(options.out, plain=options.plain, storage=options.storage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
