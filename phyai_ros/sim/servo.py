# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A joint servo like that of a robot's own controller, for any MuJoCo model.

Computed torque: it holds gravity, decouples the joints by the inertia matrix and saturates at the
published efforts. A command is approached in a straight line over ``approach`` seconds, so that a
stream of positions becomes smooth motion.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

_BANDWIDTH = 60.0  # rad/s, critically damped


class Servo:
    """joints: names in the model, in the order of goals. mirrored: (name, joint it follows, sign)
    of joints that the same motors drive. speed, effort: limits of ``joints``, [n] in the model's
    units. approach: s. together: groups of driven joints (places in joints + mirrored) that give
    way by the same share where one of them saturates; default: all of them."""

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        joints: Sequence[str],
        mirrored: Sequence[tuple[str, str, float]],
        speed: np.ndarray,
        effort: np.ndarray,
        approach: float,
        together: Sequence[Sequence[int]] = (),
    ) -> None:
        driven = (*joints, *(name for name, _, _ in mirrored))
        followed = [list(joints).index(leader) for _, leader, _ in mirrored]
        self._model, self._data = model, data
        self._q = np.array([model.joint(n).qposadr[0] for n in driven])
        self._v = np.array([model.joint(n).dofadr[0] for n in driven])
        self._of = np.array([*range(len(joints)), *followed])
        self._sign = np.array([1.0] * len(joints) + [sign for _, _, sign in mirrored])
        self._speed, self._effort = speed[self._of], effort[self._of]
        self._top = speed
        self._approach = approach
        self._groups = [np.array(g) for g in together] or [np.arange(len(driven))]
        self._acceleration = np.zeros(model.nv)
        self._force = np.zeros(model.nv)
        self._n = len(joints)
        self.hold(np.zeros(self._n))

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions [n] and velocities [n]."""
        n = self._n
        return self._data.qpos[self._q[:n]].copy(), self._data.qvel[self._v[:n]].copy()

    def place(self, joints: np.ndarray) -> None:
        """Puts the joints [n] there, at rest, and the servo with them."""
        self._data.qpos[self._q] = self._sign * joints[self._of]
        self._data.qvel[self._v] = 0.0
        self.hold(joints)

    def hold(self, joints: np.ndarray) -> None:
        self._setpoint, self._goal = joints.copy(), joints.copy()
        self._rate = np.zeros(self._n)

    @property
    def goal(self) -> np.ndarray:
        """A copy of the goal [n] in force."""
        return self._goal.copy()

    def command(self, goal: np.ndarray) -> None:
        """New goal [n], neared within the speed limits."""
        self._goal = goal
        rate = (self._goal - self._setpoint) / self._approach
        self._rate = np.clip(rate, -self._top, self._top)

    def step(self) -> None:
        """One time step of the model."""
        model, data, dt = self._model, self._data, float(self._model.opt.timestep)
        left = self._goal - self._setpoint
        move = self._rate * dt
        arrives = np.abs(move) >= np.abs(left)
        self._setpoint = np.where(arrives, self._goal, self._setpoint + move)
        self._rate = np.where(arrives, 0.0, self._rate)
        mujoco.mj_step1(model, data)
        error = self._sign * self._setpoint[self._of] - data.qpos[self._q]
        rate = np.where(arrives, left, move) / dt
        wanted = self._sign * rate[self._of] + _BANDWIDTH / 2 * error
        wanted = np.clip(wanted, -self._speed, self._speed)
        self._acceleration[self._v] = 2 * _BANDWIDTH * (wanted - data.qvel[self._v])
        mujoco.mj_mulM(model, data, self._force, self._acceleration)
        data.qfrc_applied[self._v] = self._saturate(self._force[self._v], data.qfrc_bias[self._v])
        mujoco.mj_step2(model, data)

    def _saturate(self, force: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Accelerating ``force`` on top of ``bias`` within the efforts. A group's joints give way
        by the same share, or the coupling would throw the light wrist about."""
        room = np.maximum(self._effort - np.sign(force) * bias, 0.0)
        shares = room / np.maximum(np.abs(force), 1e-9)
        given = force.copy()
        for group in self._groups:
            given[group] *= min(1.0, float(np.min(shares[group])))
        return np.clip(bias + given, -self._effort, self._effort)
