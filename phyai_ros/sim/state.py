# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One moment of the simulated cell, as the expert, the sampler and the world exchange it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class State:
    """joints: [7] positions in the order of ``kinematics.JOINTS`` (rad, m).

    blocks: colour -> (x, y, yaw) on the table, base_link, m and rad. target: the colour that
    ``instruction`` names. velocity: [2] of the target block over the table, m/s.
    """

    joints: np.ndarray
    blocks: Mapping[str, tuple[float, float, float]]
    instruction: str
    target: str
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(2))

    @property
    def target_block(self) -> np.ndarray:
        """Centre of the target block on the table: [2], m."""
        return np.array(self.blocks[self.target][:2])
