# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The tasks: bring the tool over the block that the instruction names, and stay there.

``reach``: the block lies still. ``follow``: it rides on a conveyor, and staying means going along;
once it has arrived at the conveyor's end, nothing counts any more.
"""

from __future__ import annotations

import re

import numpy as np

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.scene import BLOCK_HALF, COLOURS

TASKS = ("reach", "follow")
WORKSPACE = np.array([[0.45, 0.83], [-0.33, 0.33]])
"""Where block centres may lie: x and y range in base_link, m."""
SEPARATION = 0.13
"""Least distance between block centres, m."""
HOVER = 0.05
"""Height of the target point over the block's top, m."""
TOLERANCE = 0.03
"""Greatest distance from the target point that counts, m."""
TILT = np.deg2rad(15.0)
"""Greatest angle between the tool and straight down that counts, rad."""
HOLD = 0.5
"""How long it has to stay there without a break, s."""
FOLLOW_HOLD = 1.0
"""The same for ``follow``, s."""
TIME_LIMIT = 10.0
"""An episode's time, s."""

WORDINGS = (
    "reach the {} block",
    "reach for the {} block",
    "move to the {} block",
    "go to the {} block",
    "move the gripper over the {} block",
    "hover above the {} cube",
    "point at the {} cube",
    "bring the arm to the {} cube",
)


class InstructionError(ValueError):
    """An instruction that names no block, or more than one."""


def target_colour(instruction: str) -> str:
    """The one block colour that ``instruction`` names. Raises InstructionError."""
    words = set(re.findall(r"[a-z]+", instruction.lower()))
    named = [colour for colour in COLOURS if colour in words]
    if len(named) != 1:
        found = " and ".join(named) if named else "none"
        raise InstructionError(
            f"instruction {instruction[:80]!r}: must name one block colour of "
            f"{', '.join(COLOURS)}; found {found}"
        )
    return named[0]


def draw_instruction(rng: np.random.Generator) -> tuple[str, str]:
    """A random wording and colour -> (instruction, colour)."""
    colour = str(rng.choice(list(COLOURS)))
    return str(rng.choice(WORDINGS)).format(colour), colour


def draw_blocks(
    rng: np.random.Generator, belt: tuple[str, float] | None = None
) -> dict[str, tuple[float, float, float]]:
    """Random places that do not overlap: colour -> (x, y, yaw), m and rad.

    belt: (colour that rides on the conveyor, the conveyor's x): that block lies on it and the
    others beside it.
    """
    while True:
        centres = rng.uniform(WORKSPACE[:, 0], WORKSPACE[:, 1], size=(len(COLOURS), 2))
        if belt is not None:
            rider = list(COLOURS).index(belt[0])
            centres[rider, 0] = belt[1]
            beside = np.delete(centres, rider, axis=0)
            if np.abs(beside[:, 0] - belt[1]).min() < SEPARATION:
                continue
        gaps = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
        if gaps[np.triu_indices(len(centres), 1)].min() >= SEPARATION:
            break
    yaws = rng.uniform(-np.pi / 4, np.pi / 4, size=len(COLOURS))
    return {
        c: (float(x), float(y), float(yaw))
        for c, (x, y), yaw in zip(COLOURS, centres, yaws, strict=True)
    }


def draw_start(rng: np.random.Generator) -> np.ndarray:
    """A random start of arm and finger [7]: tool roughly down, well over the table."""
    point = rng.uniform([0.42, -0.32, 0.22], [0.80, 0.32, 0.48])
    arm = kin.tool_down(point, rng.uniform(-0.4, 0.4)) + rng.normal(0.0, 0.05, 6)
    return np.append(arm, rng.uniform(0.0, 0.04))


def target_point(block: np.ndarray) -> np.ndarray:
    """Block centres on the table [..., 2] -> where the tool centre belongs [..., 3], m."""
    block = np.asarray(block, dtype=np.float64)
    height = np.full((*block.shape[:-1], 1), 2 * BLOCK_HALF + HOVER)
    return np.concatenate([block, height], axis=-1)


class Judge:
    """Success: within ``TOLERANCE`` and ``TILT`` for ``hold`` seconds without a break."""

    def __init__(self, hold: float = HOLD) -> None:
        self._hold = hold
        self.distance = float("inf")
        self.success = False
        self._since: float | None = None

    def update(
        self,
        now: float,
        tip: np.ndarray,
        direction: np.ndarray,
        block: np.ndarray,
        counts: bool = True,
    ) -> bool:
        """Tool centre [3] and direction [3], target block centre [2], at time ``now`` (s). counts:
        whether being there is the task now."""
        self.distance = float(np.linalg.norm(tip - target_point(block)))
        inside = counts and self.distance <= TOLERANCE and -direction[2] >= np.cos(TILT)
        if not inside:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= self._hold - 1e-9:
            self.success = True
        return self.success
