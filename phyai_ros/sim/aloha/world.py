# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The ALOHA cell: seeded episodes of reaching the cube with the right gripper."""

from __future__ import annotations

import numpy as np

from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha import task
from phyai_ros.sim.aloha.physics import Physics
from phyai_ros.sim.aloha.task import State
from phyai_ros.sim.cell import Cell


class World(Cell):
    """Raises ``model.AssetsMissingError`` where gym-aloha's models are not installed."""

    joint_names = kin.JOINTS
    arm = kin.ARMS
    cameras = task.CAMERAS
    target = "cube"
    physics: Physics

    def __init__(
        self,
        seed: int = 0,
        *,
        width: int = 320,
        height: int = 240,
        instruction: str | None = None,
    ) -> None:
        super().__init__(width, height)
        self.instruction = instruction or task.INSTRUCTION
        self.physics = Physics()
        self.reset(seed)

    def reset(self, seed: int) -> State:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.set_state(State(task.draw_start(rng), task.draw_cube(rng)))
        return self.state()

    def set_state(self, state: State) -> None:
        """Puts the cell into ``state``, at rest, and starts the judging afresh."""
        self._begin()
        self.physics.set_joints(state.joints)
        self.physics.set_cube(*state.cube)
        self.physics.forward()
        self.judge_anew()
        self._look()

    def state(self) -> State:
        """The present moment."""
        return State(self.physics.joints()[0], self.physics.cube()[:2])

    def judge_anew(self) -> None:
        self.judge = task.Judge()

    def success(self) -> bool:
        return self.judge.success

    @property
    def distance(self) -> float:
        return self.judge.distance

    def over(self) -> str | None:
        return self.target if self.judge.distance <= task.TOLERANCE else None

    def _advance(self, seconds: float) -> None:
        pass  # the cube lies still

    def _look(self) -> None:
        left = self.physics.joints()[0][kin.LEFT][:6]
        self.judge.update(self.time, self.physics.grasp("right"), left, self.physics.cube())
