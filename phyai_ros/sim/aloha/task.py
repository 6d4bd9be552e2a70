# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The task: bring the right gripper to the cube and stay there, while the left arm stays at home.

The cube lies where gym-aloha's transfer-cube task puts it. Nothing is gripped: the grasp point
belongs ``HOVER`` over the cube's centre, with the finger tips just above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phyai_ros.sim.aloha import kinematics as kin

TASKS = ("reach",)
CAMERAS = ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
"""ALOHA's names for its cameras, which the scene's top, angle and wrist cameras get."""
INSTRUCTION = "reach the cube with the right gripper"
CUBE_RANGE = np.array([[0.0, 0.2], [0.4, 0.6]])
"""Where the cube's centre may lie: x and y in the world, m (gym_aloha.utils.sample_box_pose)."""
HOVER = 0.05
"""Of the grasp point over the cube's centre, m."""
TOLERANCE = 0.03
"""Greatest distance of the grasp point from there that counts, m."""
LEFT_TOLERANCE = 0.1
"""Greatest angle of a left joint from its home that counts as staying, rad."""
HOLD = 0.5
"""How long it has to stay there without a break, s."""
START_NOISE = 0.15
"""Each joint of the right arm starts within this of its home, rad; the left ones of a fifth."""


@dataclass(frozen=True)
class State:
    """joints: [14] in the order of ``kinematics.JOINTS``, rad. cube: centre on the table [2], m."""

    joints: np.ndarray
    cube: np.ndarray


def target_point(cube: np.ndarray) -> np.ndarray:
    """Cube centres [..., 3] or [..., 2] on the table -> where the grasp point belongs, [..., 3]."""
    cube = np.asarray(cube, dtype=np.float64)
    height = np.full((*cube.shape[:-1], 1), 0.02) if cube.shape[-1] == 2 else cube[..., 2:]
    return np.concatenate([cube[..., :2], height + HOVER], axis=-1)


def draw_cube(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(CUBE_RANGE[:, 0], CUBE_RANGE[:, 1])


def draw_start(rng: np.random.Generator) -> np.ndarray:
    """Both arms about home, the left gripper closed, the right one anywhere. [14]"""
    left = kin.HOME + rng.uniform(-1, 1, 6) * (START_NOISE / 5)
    right = kin.HOME + rng.uniform(-1, 1, 6) * START_NOISE
    grippers = kin.angle(np.array([kin.HOME_OPENING, rng.uniform(kin.HOME_OPENING, 0.05)]))
    return np.concatenate([left, grippers[:1], right, grippers[1:]])


class Judge:
    """Success: the right grasp point within ``TOLERANCE`` and the left arm within
    ``LEFT_TOLERANCE`` of home for ``HOLD`` seconds without a break."""

    def __init__(self) -> None:
        self.distance = float("inf")
        self.success = False
        self._since: float | None = None

    def update(self, now: float, grasp: np.ndarray, left: np.ndarray, cube: np.ndarray) -> bool:
        """Right grasp point [3], left arm joints [6], cube's centre [3], at time ``now`` (s)."""
        self.distance = float(np.linalg.norm(grasp - target_point(cube)))
        stays = float(np.abs(left - kin.HOME).max()) <= LEFT_TOLERANCE
        if not (stays and self.distance <= TOLERANCE):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= HOLD - 1e-9:
            self.success = True
        return self.success
