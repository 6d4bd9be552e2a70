# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Random single states for training: what a policy meets in closed loop, and around it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phyai_ros.sim import expert, task
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.scene import COLOURS
from phyai_ros.sim.state import State

_KINDS = ("start", "way", "near", "there", "other")
_SHARES = (0.15, 0.40, 0.20, 0.10, 0.15)


def sample_state(rng: np.random.Generator) -> State:
    """Random blocks, instruction and arm.

    The arm is at a start; on the expert's way from one, off the path by a few degrees; near the
    target; at it; or on the way to another block than the one asked for.
    """
    instruction, target = task.draw_instruction(rng)
    blocks = task.draw_blocks(rng)
    return State(sample_arm(rng, blocks, target), blocks, instruction, target)


def sample_arm(
    rng: np.random.Generator, blocks: Mapping[str, tuple[float, float, float]], target: str
) -> np.ndarray:
    """A random arm and finger [7] among ``blocks``, for the one of colour ``target``."""
    kind = str(rng.choice(_KINDS, p=_SHARES))
    aim = target
    if kind == "other":
        aim = str(rng.choice([c for c in COLOURS if c != target]))
    goal = expert.goal(np.array(blocks[aim][:2]))
    start = task.draw_start(rng)
    if kind == "start":
        joints = start
    elif kind in ("way", "other"):
        error = expert.shrink(start - goal, float(rng.uniform(0.0, 4.0)))
        joints = goal + error + _noise(rng, float(rng.choice([0.005, 0.03, 0.08])))
    elif kind == "near":
        point = task.target_point(np.array(blocks[aim][:2]))
        offset = rng.uniform([-0.10, -0.10, -0.01], [0.10, 0.10, 0.12])
        joints = np.append(kin.tool_down(point + offset), goal[6]) + _noise(rng, 0.02)
    else:
        joints = goal + _noise(rng, 0.006)
    low, high = kin.POSITION_LIMITS.T
    return np.clip(joints, low, high)


def _noise(rng: np.random.Generator, spread: float) -> np.ndarray:
    """Joint noise [7]: ``spread`` in rad for the arm, a twentieth of it in m for the finger."""
    return rng.normal(0.0, spread, 7) * np.append(np.ones(6), 0.05)
