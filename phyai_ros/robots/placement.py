# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where things are: poses, tools and camera mounts as the robot's YAML writes them."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, field_validator

from phyai_ros.robots.kinematics import Chain
from phyai_ros.robots.numbers import Metres, Number


class Pose(BaseModel):
    """position: metres. quaternion: (x, y, z, w) as ROS orders it, of any length but zero."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position: tuple[Metres, Metres, Metres] = (0.0, 0.0, 0.0)
    quaternion: tuple[Number, Number, Number, Number] = (0.0, 0.0, 0.0, 1.0)

    @field_validator("quaternion")
    @classmethod
    def _turns(cls, value: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        if np.linalg.norm(value) < 1e-6:
            raise ValueError("expected (x, y, z, w), not all zero")
        return value

    def matrix(self) -> np.ndarray:
        """Homogeneous transform [4, 4]: a point in this pose's frame -> in its parent's."""
        x, y, z, w = np.array(self.quaternion) / np.linalg.norm(self.quaternion)
        made = np.eye(4)
        made[:3, :3] = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
        made[:3, 3] = self.position
        return made


class Tool(BaseModel):
    """A tool centre point. base: the chain's base in the robot's base frame."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chain: Chain
    base: Pose = Pose()


class Mount(Pose):
    """A camera's optical frame (x right, y down, z into the picture). tool: in whose last link's
    frame it is given; empty: in the robot's base frame."""

    tool: str = ""
