# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The scripted expert: from any state the right next chunk of joint targets.

A memoryless feedback law, so that training data may start anywhere: the joints move together in a
straight line to the tool-down solution over the target block, at the cruise speed of the slowest
joint, and slow down exponentially at the end. Over a moving block the error shrinks in the block's
own frame, so that it is followed without lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phyai_ros.sim import approach, task
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.state import State

if TYPE_CHECKING:
    from phyai_ros.sim.world import World

CRUISE = np.array([0.45, 0.45, 0.6, 1.0, 1.0, 1.0, 0.04])
"""Speed of each joint far from the goal, rad/s and m/s."""
SLOW_DOWN = 0.35
"""Time constant of the final approach, s."""
FINGER_OPEN = 0.035
"""Where the finger belongs over a block, m."""


def goal(block: np.ndarray) -> np.ndarray:
    """Target block centres [..., 2] -> joint goals [..., 7]."""
    arm = kin.tool_down(task.target_point(block))
    return np.concatenate([arm, np.full((*arm.shape[:-1], 1), FINGER_OPEN)], axis=-1)


def shrink(error: np.ndarray, dt: float) -> np.ndarray:
    """Joint error [..., 7] -> what is left of it after ``dt`` seconds."""
    return approach.shrink(error, CRUISE, SLOW_DOWN, dt)


def chunks(
    joints: np.ndarray,
    block: np.ndarray,
    velocity: np.ndarray | float = 0.0,
    horizon: int = 16,
    step: float = 0.05,
) -> np.ndarray:
    """Expert chunks for a batch of states, [..., horizon, 7] absolute joint targets.

    joints [..., 7]; block [..., 2], the target's centre (m); velocity [..., 2] (m/s). Row k is the
    command for the tick k steps after the state's: it is reached one step later. Raises
    kinematics.UnreachableError.
    """
    return towards(joints, goals(block, velocity, horizon, step), step)


def goals(
    block: np.ndarray,
    velocity: np.ndarray | float = 0.0,
    horizon: int = 16,
    step: float = 0.05,
) -> np.ndarray:
    """Joint goals over a block that moves on, now and at the end of each of ``horizon`` steps:
    [..., horizon + 1, 7]. Arguments as in ``chunks``."""
    block = np.asarray(block, dtype=np.float64)
    times = step * np.arange(horizon + 1)
    drift = np.broadcast_to(np.asarray(velocity, dtype=np.float64), block.shape)
    path = block[..., None, :] + times[:, None] * drift[..., None, :]
    # A belt ends where the workspace does.
    path[..., 1:, :] = _within(path[..., 1:, :], block[..., None, :])
    return goal(path)


def towards(joints: np.ndarray, path: np.ndarray, step: float = 0.05) -> np.ndarray:
    """From ``joints`` [..., 7] at the time of the first of the goals ``path`` [..., n + 1, 7]: the
    targets [..., n, 7] by which the error against the goals shrinks."""
    error = np.asarray(joints, dtype=np.float64) - path[..., 0, :]
    rows = []
    for k in range(1, path.shape[-2]):
        error = shrink(error, step)
        rows.append(path[..., k, :] + error)
    return np.stack(rows, axis=-2)


def _within(path: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The path held inside the workspace, or where it started if that is outside."""
    low = np.minimum(task.WORKSPACE[:, 0], start)
    high = np.maximum(task.WORKSPACE[:, 1], start)
    return np.clip(path, low, high)


class Expert:
    """The expert as a policy of one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def chunk(
        self, state: State | None = None, horizon: int = 16, step: float = 0.05
    ) -> np.ndarray:
        """The next chunk [horizon, 7] for ``state`` (default: the world's present one)."""
        state = self.world.state() if state is None else state
        return chunks(state.joints, state.target_block, state.velocity, horizon, step)
