# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A robot's tools and cameras in its base frame, from joint positions."""

from __future__ import annotations

import numpy as np

from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.kinematics import Forward
from phyai_ros.robots.robot import Robot


class Geometry:
    """Positions are float64 [..., joints] in the order of ``robot.joint_names``, robot units.

    Raises RobotError where the robot's YAML says of no tool or of no camera where it is.
    """

    def __init__(self, robot: Robot) -> None:
        self.roles = tuple(role for role, camera in robot.cameras.items() if camera.mount)
        self.tools = tuple(robot.tools)
        for key, there in (("tools", self.tools), ("cameras.<role>.mount", self.roles)):
            if not there:
                raise RobotError(
                    f"{robot.source}: {key}: missing; without it nothing is known of where the "
                    "plan would be in a picture (docs/robots.md, Tools and mounts)"
                )
        self._mounts = {role: robot.cameras[role].mount for role in self.roles}
        self._forward = {
            name: Forward(tool.chain, robot.joint_names) for name, tool in robot.tools.items()
        }
        self._bases = {name: tool.base.matrix() for name, tool in robot.tools.items()}

    def tool_points(self, tool: str, positions: np.ndarray) -> np.ndarray:
        """Tool centre points [..., 3] in the base frame, metres."""
        forward = self._forward[tool]
        local = forward.frames(positions) @ np.append(forward.tool, 1.0)
        return (local @ self._bases[tool].T)[..., :3]

    def camera(self, role: str, positions: np.ndarray) -> np.ndarray:
        """The camera's optical frame [4, 4] in the base frame. positions: [joints]."""
        mount = self._mounts[role]
        assert mount is not None
        if not mount.tool:
            return mount.matrix()
        frame = self._forward[mount.tool].frames(positions)
        return self._bases[mount.tool] @ frame @ mount.matrix()
