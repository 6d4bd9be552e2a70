# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Physics of the ALOHA cell: two ViperX arms with their position loops, a table and a cube.

Joints are ALOHA's fourteen, a gripper in rad of its motor, as Interbotix's driver has it; in the
model the crank is left out and the fingers slide.
"""

from __future__ import annotations

import mujoco
import numpy as np

from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha import model as scene
from phyai_ros.sim.servo import Servo

SERVO_TIME = 0.02
"""Time over which a new command is approached, s: one period of ALOHA's 50 Hz."""
FINGERS = (0.021, 0.057)
"""Where the model's fingers stop, m."""
_FINGER_SPEED = 0.2  # m/s
_GROUPS = (range(6), (6, 14), range(7, 13), (13, 15))


def _model_joints() -> list[str]:
    fingers = {"gripper": "left_finger"}
    return [
        f"vx300s_{side}/{fingers.get(name, name)}"
        for side in kin.SIDES
        for name in (*kin.ARM_JOINTS, "gripper")
    ]


class Physics:
    """Arms, grippers and cube; knows nothing of tasks. Not thread-safe."""

    def __init__(self) -> None:
        self.model = scene.load()
        self.data = mujoco.MjData(self.model)
        names = _model_joints()
        mirrored = [
            (f"vx300s_{s}/right_finger", f"vx300s_{s}/left_finger", -1.0) for s in kin.SIDES
        ]
        speed, effort = kin.VELOCITY_LIMITS.copy(), np.tile(np.append(kin.EFFORT_LIMITS, 0.0), 2)
        speed[list(kin.GRIPPERS)], effort[list(kin.GRIPPERS)] = _FINGER_SPEED, kin.FINGER_FORCE
        self._servo = Servo(
            self.model, self.data, names, mirrored, speed, effort, SERVO_TIME, _GROUPS
        )
        self._hand = {side: self.data.body(f"vx300s_{side}/gripper_link") for side in kin.SIDES}
        cube = self.model.joint("red_box_joint")
        self._cube_q, self._cube_v = int(cube.qposadr[0]), int(cube.dofadr[0])

    @property
    def timestep(self) -> float:
        return float(self.model.opt.timestep)

    @property
    def positions(self) -> np.ndarray:
        """A copy of all generalised positions, for a renderer."""
        return self.data.qpos.copy()

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions [14] and velocities [14] in the order of ``kinematics.JOINTS``."""
        positions, velocities = self._servo.joints()
        grippers = list(kin.GRIPPERS)
        angles = kin.angle(np.clip(positions[grippers], *FINGERS))
        positions[grippers] = angles
        velocities[grippers] /= kin.opening_rate(angles)
        return positions, velocities

    def set_joints(self, joints: np.ndarray) -> None:
        """Puts the arms at ``joints`` [14] at rest, and the servo with them."""
        self._servo.place(self._model_units(joints))

    @property
    def goal(self) -> np.ndarray:
        """A copy of the joint goal [14] in force."""
        goal = self._servo.goal
        grippers = list(kin.GRIPPERS)
        goal[grippers] = kin.angle(goal[grippers])
        return goal

    def command(self, goal: np.ndarray) -> None:
        """New joint goal [14], clipped to the position limits, neared within the speed limits."""
        self._servo.command(self._model_units(goal))

    def _model_units(self, joints: np.ndarray) -> np.ndarray:
        clipped = np.clip(joints, kin.POSITION_LIMITS[:, 0], kin.POSITION_LIMITS[:, 1])
        grippers = list(kin.GRIPPERS)
        clipped[grippers] = np.clip(kin.opening(clipped[grippers]), *FINGERS)
        return clipped

    def grasp(self, side: str) -> np.ndarray:
        """Grasp point [3] of an arm, m, at the start of the newest step."""
        hand = self._hand[side]
        return hand.xpos + kin.GRASP * hand.xmat[0::3]

    def cube(self) -> np.ndarray:
        """Centre of the cube [3], m."""
        return self.data.qpos[self._cube_q : self._cube_q + 3].copy()

    def set_cube(self, x: float, y: float) -> None:
        """Puts the cube flat on the table, at rest."""
        q, v = self._cube_q, self._cube_v
        self.data.qpos[q : q + 7] = (x, y, scene.CUBE_HALF, 1.0, 0.0, 0.0, 0.0)
        self.data.qvel[v : v + 6] = 0.0

    def forward(self) -> None:
        """Recomputes everything that depends on positions, after a set_ call."""
        mujoco.mj_forward(self.model, self.data)

    def step(self) -> None:
        """One time step."""
        self._servo.step()
