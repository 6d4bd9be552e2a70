# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""From a frame and a request to joint positions: the one way, live and in a replay. No rclpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from phyai_ros.control.chunk import Chunk, sources
from phyai_ros.control.frame import Frame
from phyai_ros.control.states import Request
from phyai_ros.engine.request_noise import request_noise
from phyai_ros.engine.types import ActionChunk, Guidance, Observation
from phyai_ros.nodes import guided
from phyai_ros.robots.binding import Binding


class Engine(Protocol):
    """What is used of engine.policy.Policy."""

    def noise_shape(self, batch: int) -> tuple[int, ...]: ...

    def infer(
        self, observation: Observation, noise: np.ndarray, guidance: Guidance | None
    ) -> ActionChunk: ...


def policy_name(family: str, checkpoint: str, precision: str, seed: int) -> str:
    """What an ActionChunk says of the policy that made it. checkpoint: a directory, of which only
    the name is told, or a hub id."""
    path = Path(checkpoint)
    label = path.name if path.is_dir() else checkpoint
    return f"{family} {label}, {precision}, seed {seed}"


@dataclass(frozen=True)
class Answered:
    """chunk: for the handoff. observation: what the engine saw. stages: seconds, the engine's."""

    chunk: Chunk
    observation: Observation
    stages: Mapping[str, float]


class Answering:
    """A policy bound to a robot. Its noise comes from (seed, request id) alone: the same request
    for the same frame gives the same chunk, whatever was asked before.

    name: of the policy, for people. handoff: a name of control.methods; one that is guided has the
    left-over actions of each request handed to the solver. Raises ValueError when the policy
    cannot be guided so.
    """

    def __init__(
        self, engine: Engine, binding: Binding, seed: int, name: str, handoff: str = "replace"
    ) -> None:
        self.name = name
        self.binding = binding
        self._engine = engine
        self._seed = seed
        self._shape = engine.noise_shape(1)
        self._guidance = guided.guidance_method(handoff, binding.spec)

    def answer(
        self,
        frame: Frame,
        request: Request,
        instruction: str,
        history: Sequence[Observation] = (),
    ) -> Answered:
        """instruction: used when the request brings none, or a blank one. history: as in
        engine.types.Observation. Raises ValueError, for people, when there is no chunk."""
        text = next((t for t in (request.instruction, instruction) if t.strip()), "")
        if not text:
            raise ValueError(
                "no instruction yet: none in the request, on /instruction or in the parameter"
            )
        binding = self.binding
        observation = binding.observation(frame, text, history)
        noise = request_noise(self._seed, request.request_id, self._shape)
        wish = None
        if self._guidance is not None:
            wish = guided.guidance(request, frame, binding, self._guidance)
        inferred = self._engine.infer(observation, noise, wish)
        positions = binding.positions(inferred.actions, frame.joints)
        if not np.isfinite(positions).all():
            row, column = np.argwhere(~np.isfinite(positions))[0]
            raise ValueError(
                f"the policy gave {positions[row, column]} at row {row}, joint "
                f"{binding.joint_names[column]}; is the checkpoint's download complete?"
            )
        decided = guided.decided(wish)
        chunk = self.chunk(request, frame.stamp, text, positions, sources(frame), decided)
        return Answered(chunk, observation, inferred.stages)

    def chunk(
        self,
        request: Request,
        stamp: float,
        instruction: str,
        positions: np.ndarray,
        made_of: Mapping[str, float],
        committed: int = 0,
    ) -> Chunk:
        """The request's answer as the handoff takes it."""
        return Chunk(
            request_id=request.request_id,
            epoch=request.epoch,
            stamp=stamp,
            joint_names=self.binding.joint_names,
            step=self.binding.step,
            positions=positions,
            committed=committed,
            policy=self.name,
            instruction=instruction,
            sources=made_of,
        )
