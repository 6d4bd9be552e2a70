# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The scripted expert: from any state of the arms the right next chunk of joint targets.

A memoryless feedback law, so that training data may start anywhere: the right arm's joints move
together in a straight line to the pose over the cube, at the cruise speed of the slowest joint, and
slow down exponentially at the end; the left arm goes home by the same law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phyai_ros.sim import approach
from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha import task

if TYPE_CHECKING:
    from phyai_ros.sim.aloha.world import World

CRUISE = np.array([0.8, 0.8, 0.8, 1.2, 1.0, 1.2, 2.0])
"""Speed of each joint of an arm far from the goal, rad/s."""
SLOW_DOWN = 0.35
"""Time constant of the final approach, s."""
RIGHT_OPENING = 0.05
"""Of the right gripper's fingers over the cube, m."""
_HOME = np.append(kin.HOME, kin.angle(np.array(kin.HOME_OPENING)))


def goal(cube: np.ndarray) -> np.ndarray:
    """Cube centres on the table [..., 2] -> joint goals [..., 14], rad."""
    arm = kin.reach(task.target_point(cube), "right")
    lead = arm.shape[:-1]
    opened = np.full((*lead, 1), kin.angle(np.array(RIGHT_OPENING)))
    return np.concatenate([np.broadcast_to(_HOME, (*lead, 7)), arm, opened], axis=-1)


def shrink(error: np.ndarray, dt: float) -> np.ndarray:
    """Joint error of one arm [..., 7] -> what is left of it after ``dt`` seconds."""
    return approach.shrink(error, CRUISE, SLOW_DOWN, dt)


def chunks(joints: np.ndarray, cube: np.ndarray, horizon: int, step: float) -> np.ndarray:
    """Expert chunks for a batch of states, [..., horizon, 14] absolute joint targets.

    joints [..., 14]; cube [..., 2], its centre (m). Row k is the command for the tick k steps after
    the state's: it is reached one step later.
    """
    goals = goal(cube)
    error = np.asarray(joints, dtype=np.float64) - goals
    rows = []
    for _ in range(horizon):
        error = np.concatenate([shrink(error[..., s], step) for s in (kin.LEFT, kin.RIGHT)], -1)
        rows.append(goals + error)
    return np.stack(rows, axis=-2)


class Expert:
    """The expert as a policy of one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def chunk(
        self, state: task.State | None = None, horizon: int = 50, step: float = 0.02
    ) -> np.ndarray:
        """The next chunk [horizon, 14] for ``state`` (default: the world's present one)."""
        state = self.world.state() if state is None else state
        return chunks(state.joints, state.cube, horizon, step)
