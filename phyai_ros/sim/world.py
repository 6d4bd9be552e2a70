# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The UR10e at a task in the simulator. Cells of every robot: ``cells``."""

from __future__ import annotations

import numpy as np

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import task
from phyai_ros.sim.cell import Cell
from phyai_ros.sim.conveyor import Conveyor, Ride
from phyai_ros.sim.physics import Physics
from phyai_ros.sim.scene import CAMERAS
from phyai_ros.sim.state import State

ROBOTS = ("ur10e",)
TASKS = task.TASKS
FOLLOW_SPEED = 0.04
"""Of the block in ``follow`` where no conveyor is given, m/s."""


def make(
    robot: str = "ur10e",
    task: str = "reach",
    seed: int = 0,
    *,
    width: int = 320,
    height: int = 240,
    conveyor: Conveyor | None = None,
    instruction: str | None = None,
) -> World:
    """A world at the start of episode ``seed``. Raises ValueError listing what there is.

    width, height: of pictures. conveyor: carries the target block; ``follow`` has one anyway, at
    ``FOLLOW_SPEED``. instruction: the same for every
    episode; by default each episode draws its own.
    """
    for kind, name, known in (("robot", robot, ROBOTS), ("task", task, TASKS)):
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; the simulator has {', '.join(known)}")
    follow = task == "follow"
    if follow and conveyor is None:
        conveyor = Conveyor(FOLLOW_SPEED)
    return World(
        seed, width=width, height=height, conveyor=conveyor, instruction=instruction, follow=follow
    )


class World(Cell):
    """The UR10e's cell.

    follow: the task is to follow the block on the conveyor, not only to reach it.
    """

    joint_names = kin.JOINTS
    arm = tuple(range(6))
    cameras = CAMERAS
    physics: Physics

    def __init__(
        self,
        seed: int = 0,
        *,
        width: int = 320,
        height: int = 240,
        conveyor: Conveyor | None = None,
        instruction: str | None = None,
        follow: bool = False,
    ) -> None:
        if instruction is not None:
            task.target_colour(instruction)  # refuses before anything runs
        super().__init__(width, height)
        self._follow = follow
        self._conveyor = conveyor
        self._fixed_instruction = instruction
        self.physics = Physics((conveyor.x, *conveyor.range) if conveyor else None)
        self._ride: Ride | None = None
        self.reset(seed)

    def reset(self, seed: int) -> State:
        """Starts episode ``seed``: blocks, arm and instruction re-drawn; the same for a seed."""
        rng = np.random.default_rng(seed)
        instruction, target = task.draw_instruction(rng)
        if self._fixed_instruction is not None:
            instruction = self._fixed_instruction
            target = task.target_colour(instruction)
        belt = (target, self._conveyor.x) if self._conveyor else None
        blocks = task.draw_blocks(rng, belt)
        self.seed = seed
        self.set_state(State(task.draw_start(rng), blocks, instruction, target))
        if self._conveyor:
            self._ride = Ride(self._conveyor, rng)
            self._carry()
            self.physics.forward()
        return self.state()

    def set_state(self, state: State) -> None:
        """Puts the cell into ``state``, at rest, and starts the judging afresh."""
        self.instruction, self.target = state.instruction, state.target
        self._ride = None
        self._begin()
        self.physics.set_joints(state.joints)
        self._yaws = {c: yaw for c, (_, _, yaw) in state.blocks.items()}
        for colour, (x, y, yaw) in state.blocks.items():
            self.physics.set_block(colour, x, y, yaw)
        self.physics.forward()
        self.judge_anew()
        self._look()

    def judge_anew(self) -> None:
        """Only what happens from now on counts."""
        self.judge = task.Judge(task.FOLLOW_HOLD if self._follow else task.HOLD)

    def state(self) -> State:
        """The present moment."""
        positions, _ = self.physics.joints()
        blocks = {}
        for colour in self._yaws:
            centre, _ = self.physics.block(colour)
            blocks[colour] = (float(centre[0]), float(centre[1]), self.physics.block_yaw(colour))
        velocity = np.array([0.0, self._ride.velocity]) if self._ride else np.zeros(2)
        return State(positions, blocks, self.instruction, self.target, velocity)

    def _advance(self, seconds: float) -> None:
        if self._ride:
            self._ride.step(seconds)
        self._carry()

    def success(self) -> bool:
        """Whether the task of this episode has been done (once done, it stays so)."""
        return self.judge.success

    @property
    def distance(self) -> float:
        """Tool centre to target point, m."""
        return self.judge.distance

    def over(self) -> str | None:
        """The colour of the block that the tool is over now, by the task's tolerance; or None."""
        tip, _ = self.physics.tool()
        distances = {
            colour: float(
                np.linalg.norm(tip - task.target_point(self.physics.block(colour)[0][:2]))
            )
            for colour in self._yaws
        }
        nearest = min(distances, key=distances.__getitem__)
        return nearest if distances[nearest] <= task.TOLERANCE else None

    def _carry(self) -> None:
        if self._ride is None or self._conveyor is None:
            return
        self.physics.set_block(
            self.target,
            self._conveyor.x,
            self._ride.y,
            self._yaws[self.target],
            self._ride.velocity,
        )

    def _look(self) -> None:
        centre, _ = self.physics.block(self.target)
        stands = self._follow and (self._ride is None or self._ride.velocity == 0.0)
        self.judge.update(self.time, *self.physics.tool(), centre[:2], counts=not stands)
