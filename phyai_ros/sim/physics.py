# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Physics of the UR10e cell: MuJoCo, and a servo that behaves as the UR controller's ``servoj``."""

from __future__ import annotations

import mujoco
import numpy as np

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import scene
from phyai_ros.sim.arm_model import MIRROR_JOINT
from phyai_ros.sim.scene import BLOCK_HALF, COLOURS
from phyai_ros.sim.servo import Servo

SERVO_TIME = 0.05
"""Time over which a new command is approached, s: one period of a 20 Hz stream."""


class Physics:
    """Arm, gripper and blocks; knows nothing of tasks. Not thread-safe."""

    def __init__(self, belt: tuple[float, float, float] | None = None) -> None:
        self.model = mujoco.MjModel.from_xml_string(scene.document(belt))
        self.data = mujoco.MjData(self.model)
        self._flange = self.data.body("flange")
        self._block_q = {c: int(self.model.joint(f"{c}_block").qposadr[0]) for c in COLOURS}
        self._block_v = {c: int(self.model.joint(f"{c}_block").dofadr[0]) for c in COLOURS}
        self._servo = Servo(
            self.model,
            self.data,
            kin.JOINTS,
            [(MIRROR_JOINT, kin.FINGER_JOINT, 1.0)],
            kin.VELOCITY_LIMITS,
            kin.EFFORT_LIMITS,
            SERVO_TIME,
        )

    @property
    def timestep(self) -> float:
        return float(self.model.opt.timestep)

    @property
    def positions(self) -> np.ndarray:
        """A copy of all generalised positions, for a renderer."""
        return self.data.qpos.copy()

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions [7] and velocities [7] in the order of ``kinematics.JOINTS``."""
        return self._servo.joints()

    def set_joints(self, joints: np.ndarray) -> None:
        """Puts the arm at ``joints`` [7] at rest, and the servo with it."""
        self._servo.place(np.clip(joints, kin.POSITION_LIMITS[:, 0], kin.POSITION_LIMITS[:, 1]))

    def block(self, colour: str) -> tuple[np.ndarray, np.ndarray]:
        """Centre [3] (m) and velocity [3] (m/s) of a block."""
        q, v = self._block_q[colour], self._block_v[colour]
        return self.data.qpos[q : q + 3].copy(), self.data.qvel[v : v + 3].copy()

    def block_yaw(self, colour: str) -> float:
        w, x, y, z = self.data.qpos[self._block_q[colour] + 3 : self._block_q[colour] + 7]
        return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))

    def set_block(self, colour: str, x: float, y: float, yaw: float, velocity: float = 0.0) -> None:
        """Puts a block flat on the table, moving along y at ``velocity`` (m/s)."""
        q, v = self._block_q[colour], self._block_v[colour]
        self.data.qpos[q : q + 7] = (x, y, BLOCK_HALF, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        self.data.qvel[v : v + 6] = (0.0, velocity, 0.0, 0.0, 0.0, 0.0)

    @property
    def goal(self) -> np.ndarray:
        """A copy of the joint goal [7] in force."""
        return self._servo.goal

    def command(self, goal: np.ndarray) -> None:
        """New joint goal [7], clipped to the position limits, neared within the speed limits."""
        self._servo.command(np.clip(goal, kin.POSITION_LIMITS[:, 0], kin.POSITION_LIMITS[:, 1]))

    def tool(self) -> tuple[np.ndarray, np.ndarray]:
        """Tool centre point [3] (m) and pointing direction [3], at the start of the newest step."""
        flange = self._flange
        direction = flange.xmat[2::3].copy()
        return flange.xpos + kin.TOOL_LENGTH * direction, direction

    def forward(self) -> None:
        """Recomputes everything that depends on positions, after a set_ call."""
        mujoco.mj_forward(self.model, self.data)

    def step(self) -> None:
        """One time step."""
        self._servo.step()
