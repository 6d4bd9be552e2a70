# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Physics of the cell: MuJoCo and a joint servo like that of the robot's own controller.

The servo is computed torque: it holds gravity, decouples the joints by the inertia matrix and
saturates at the published efforts. As with the UR controller's ``servoj``, a command is approached
in a straight line over ``SERVO_TIME``, so that a 20 Hz stream of positions becomes smooth motion.
"""

from __future__ import annotations

import mujoco
import numpy as np

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.scene import BLOCK_HALF, COLOURS, MIRROR_JOINT, mjcf

SERVO_TIME = 0.05
"""Time over which a new command is approached, s: one period of a 20 Hz stream."""
_BANDWIDTH = 60.0  # rad/s, critically damped


class Physics:
    """Arm, gripper and blocks; knows nothing of tasks. Not thread-safe."""

    def __init__(self, belt: tuple[float, float, float] | None = None) -> None:
        self.model = mujoco.MjModel.from_xml_string(mjcf(belt))
        self.data = mujoco.MjData(self.model)
        joints = (*kin.JOINTS, MIRROR_JOINT)
        self._flange = self.data.body("flange")
        self._q = np.array([self.model.joint(n).qposadr[0] for n in joints])
        self._v = np.array([self.model.joint(n).dofadr[0] for n in joints])
        self._block_q = {c: int(self.model.joint(f"{c}_block").qposadr[0]) for c in COLOURS}
        self._block_v = {c: int(self.model.joint(f"{c}_block").dofadr[0]) for c in COLOURS}
        self._effort = np.append(kin.EFFORT_LIMITS, kin.EFFORT_LIMITS[-1])
        self._speed = np.append(kin.VELOCITY_LIMITS, kin.VELOCITY_LIMITS[-1])
        self._acceleration = np.zeros(self.model.nv)
        self._force = np.zeros(self.model.nv)
        self._setpoint = np.zeros(7)
        self._rate = np.zeros(7)
        self._goal = np.zeros(7)

    @property
    def timestep(self) -> float:
        return float(self.model.opt.timestep)

    @property
    def positions(self) -> np.ndarray:
        """A copy of all generalised positions, for a renderer."""
        return self.data.qpos.copy()

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions [7] and velocities [7] in the order of ``kinematics.JOINTS``."""
        return self.data.qpos[self._q[:7]].copy(), self.data.qvel[self._v[:7]].copy()

    def set_joints(self, joints: np.ndarray) -> None:
        """Puts the arm at ``joints`` [7] at rest, and the servo with it."""
        joints = np.clip(joints, kin.POSITION_LIMITS[:, 0], kin.POSITION_LIMITS[:, 1])
        self.data.qpos[self._q] = np.append(joints, joints[6])
        self.data.qvel[self._v] = 0.0
        self._setpoint, self._goal = joints.copy(), joints.copy()
        self._rate = np.zeros(7)

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
        return self._goal.copy()

    def command(self, goal: np.ndarray) -> None:
        """New joint goal [7], clipped to the position limits, neared within the speed limits."""
        self._goal = np.clip(goal, kin.POSITION_LIMITS[:, 0], kin.POSITION_LIMITS[:, 1])
        rate = (self._goal - self._setpoint) / SERVO_TIME
        self._rate = np.clip(rate, -kin.VELOCITY_LIMITS, kin.VELOCITY_LIMITS)

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
        model, data, dt = self.model, self.data, self.timestep
        left = self._goal - self._setpoint
        move = self._rate * dt
        arrives = np.abs(move) >= np.abs(left)
        self._setpoint = np.where(arrives, self._goal, self._setpoint + move)
        self._rate = np.where(arrives, 0.0, self._rate)
        mujoco.mj_step1(model, data)
        error = np.append(self._setpoint, self._setpoint[6]) - data.qpos[self._q]
        rate = np.where(arrives, left, move) / dt
        wanted = np.append(rate, rate[6]) + _BANDWIDTH / 2 * error
        wanted = np.clip(wanted, -self._speed, self._speed)
        self._acceleration[self._v] = 2 * _BANDWIDTH * (wanted - data.qvel[self._v])
        mujoco.mj_mulM(model, data, self._force, self._acceleration)
        data.qfrc_applied[self._v] = self._saturate(self._force[self._v], data.qfrc_bias[self._v])
        mujoco.mj_step2(model, data)

    def _saturate(self, force: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Accelerating ``force`` on top of ``bias`` within the efforts. All joints give way by the
        same share, or the coupling would throw the light wrist about."""
        room = np.maximum(self._effort - np.sign(force) * bias, 0.0)
        share = min(1.0, float(np.min(room / np.maximum(np.abs(force), 1e-9))))
        return np.clip(bias + share * force, -self._effort, self._effort)
