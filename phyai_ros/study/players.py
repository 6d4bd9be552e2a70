# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who answers a request in a study: a policy from camera pictures, or the scripted expert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from phyai_ros.control.align import AlignConfig, CameraStream, ObservationAligner
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import Request
from phyai_ros.control.words import counted
from phyai_ros.nodes.answering import Answering
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.robot import Robot
from phyai_ros.sim import cells
from phyai_ros.sim.cell import Cell

if TYPE_CHECKING:
    from phyai_ros.engine.policy import Policy  # torch: the expert needs none


EXPERT_SECONDS = 0.8
"""That a chunk of the expert lasts, whatever the robot's control rate."""


class Player(Protocol):
    def begin(self, world: Cell, seed: int, handoff: str) -> None:
        """A new episode of ``world``; ``seed`` decides the noise."""
        ...

    def look(self, now: float) -> None:
        """The joint states of ``now``, seconds."""
        ...

    def expose(self, now: float) -> None:
        """The cameras take their pictures of ``now``, seconds."""
        ...

    def answer(self, request: Request, now: float) -> Chunk:
        """The chunk for a request whose answering starts at ``now``, from the newest pictures.
        Raises control.frame.NotReady when those may not answer."""
        ...


class PolicyPlayer:
    """A checkpoint, through the same aligner, binding and answering as policy_node.

    Pictures are taken once a control tick; only those that an answer looks at are rendered.
    """

    def __init__(self, policy: Policy, binding: Binding, robot: Robot) -> None:
        if policy.spec.history:
            raise ValueError(
                f"{policy.spec.checkpoint} looks at "
                f"{counted(policy.spec.history, 'earlier observation')}; "
                f"a study knows only policies that look at one moment"
            )
        self._policy, self._binding, self._robot = policy, binding, robot

    def begin(self, world: Cell, seed: int, handoff: str) -> None:
        robot = self._robot
        self._world = world
        name = self._policy.spec.family
        self._answering = Answering(self._policy, self._binding, seed, name, handoff)
        self._aligner = ObservationAligner(
            [CameraStream(r, robot.cameras[r].max_age) for r in self._binding.cameras],
            robot.joint_names,
            AlignConfig(joint_max_age=robot.joint_max_age, max_skew=robot.max_skew),
        )

    def look(self, now: float) -> None:
        positions = {n: p for n, (p, _) in self._world.joints().items()}
        self._aligner.add_joints("sim", now, positions, now)

    def expose(self, now: float) -> None:
        self._exposed = now, self._world.physics.positions

    def answer(self, request: Request, now: float) -> Chunk:
        taken, positions = self._exposed
        if taken >= request.not_before:  # else the aligner says why the newest will not do
            for role in self._binding.cameras:
                picture = self._world.render(role, positions)
                self._aligner.add_image(role, taken, picture, now)
        frame = self._aligner.assemble(now, request.not_before)
        return self._answering.answer(frame, request, self._world.instruction).chunk


class ExpertPlayer:
    """The robot's scripted expert: it knows where the block or cube is and how fast it moves. What
    it reaches is what the task allows with this delay; no policy that sees pictures will do better.

    horizon: rows of its chunks.
    """

    def __init__(self, robot: Robot) -> None:
        self._names, self._step = robot.joint_names, robot.period
        self._make = cells.kind(robot.name).expert
        self.horizon = max(1, round(EXPERT_SECONDS / robot.period))

    def begin(self, world: Cell, seed: int, handoff: str) -> None:
        self._world, self._expert = world, self._make(world)

    def look(self, now: float) -> None:
        pass

    def expose(self, now: float) -> None:
        self._exposed = now, self._world.state()

    def answer(self, request: Request, now: float) -> Chunk:
        taken, state = self._exposed
        rows = self._expert.chunk(state, self.horizon, self._step)
        columns = [self._world.joint_names.index(n) for n in self._names]
        return Chunk(
            request.request_id,
            request.epoch,
            taken,
            self._names,
            self._step,
            np.ascontiguousarray(rows[:, columns]),
            policy="expert",
            instruction=self._world.instruction,
        )
