# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A policy on a robot, ready to answer a bag's requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from phyai_ros import robots
from phyai_ros.control.handoff import Handoff
from phyai_ros.engine import hub, registry
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.policy import Policy, load_policy
from phyai_ros.engine.reference import ReferenceRunner
from phyai_ros.engine.types import ActionChunk, Guidance, Observation, OtherFamilyError
from phyai_ros.nodes import model_file, pairing
from phyai_ros.nodes.answering import Answering, Engine, policy_name
from phyai_ros.robots import config_files
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.handoff import config_of, make_handoff
from phyai_ros.robots.model_config import ModelConfig
from phyai_ros.robots.robot import Robot

SELECTORS = ("fast", "reference")


@dataclass(frozen=True)
class Choices:
    """What a replay is told. checkpoint: as load_policy takes it. model: a model's YAML, empty:
    the one in config/models for the checkpoint's family. execution_horizon: 0: the model's own.
    delay: seconds that an inference takes on the bag's clock where none was recorded."""

    checkpoint: str
    robot: str
    model: str = ""
    family: str | None = None
    embodiment: str | None = None
    revision: str | None = None
    device: str = "cpu"
    precision: str = "float32"
    selector: str = "fast"
    seed: int = 0
    handoff: str = "replace"
    execution_horizon: int = 0
    instruction: str = ""
    delay: float = 0.1
    observation_timeout: float = 1.0


@dataclass(frozen=True)
class Session:
    """answering: frames and requests -> chunks. execution_horizon: rows."""

    choices: Choices
    robot: Robot
    binding: Binding
    answering: Answering
    execution_horizon: int

    def handoff(self) -> Handoff:
        """A handoff as handoff_node makes it, without its watch of the arm: a recorded arm follows
        the recorded commands, not these."""
        config = config_of(self.robot, self.execution_horizon)
        return make_handoff(self.robot, config, self.choices.handoff, live=False)


class ReferenceEngine:
    """The path that hoists nothing, one request at a time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._runner = ReferenceRunner(policy.adapter, policy.device)

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return self._policy.noise_shape(batch)

    def infer(
        self, observation: Observation, noise: np.ndarray, guidance: Guidance | None
    ) -> ActionChunk:
        if guidance is not None:
            raise ValueError("the reference path does no guidance: replay with a handoff without")
        given = torch.as_tensor(noise).to(self._policy.device)
        return self._runner.run([observation], given)[0]


def open_session(choices: Choices) -> Session:
    """Load the policy and bind it. Raises PolicyError, RobotError or ValueError by name."""
    robot = robots.load(choices.robot)
    model, source = _model(choices)
    part = model_file.robot_part(model, robot.name, source) if model else ModelConfig()
    try:
        policy = load_policy(
            choices.checkpoint,
            family=choices.family or (model.family if model else None),
            embodiment=choices.embodiment or part.embodiment,
            device=choices.device,
            dtype=choices.precision,
            revision=choices.revision,
        )
    except OtherFamilyError as error:
        if choices.family or model is None:
            raise
        text = pairing.other_family(str(model.family), source, choices.checkpoint, error.found)
        raise ValueError(text) from error
    binding = Binding(robot, policy.spec, part, source=source)
    engine: Engine = ReferenceEngine(policy) if choices.selector == "reference" else policy
    name = policy_name(policy.spec.family, choices.checkpoint, choices.precision, choices.seed)
    answering = Answering(engine, binding, choices.seed, name, choices.handoff)
    rows = choices.execution_horizon or (model.execution_horizon if model else None)
    return Session(choices, robot, binding, answering, rows or max(1, binding.horizon // 2))


def _model(choices: Choices) -> tuple[model_file.ModelFile | None, str]:
    """The model's YAML as named, else the one of config/models that is of the checkpoint's family;
    none unless there is exactly one."""
    if choices.model:
        return model_file.load(choices.model)
    if choices.family:
        family = registry.resolve(choices.family)
    else:
        family = registry.detect(Checkpoint(hub.resolve(choices.checkpoint, choices.revision)))
    found = []
    for name in config_files.names("models"):
        model, source = model_file.load(name)
        if model.family is not None and registry.resolve(model.family) == family:
            found.append((model, source))
    return found[0] if len(found) == 1 else (None, "")
