# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A model's YAML (config/models) and the checkpoint it stands for. No rclpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from phyai_ros.engine import embedded
from phyai_ros.robots import config_files
from phyai_ros.robots.model_config import ModelConfig, for_robot
from phyai_ros.robots.numbers import Whole


class ModelFile(BaseModel):
    """family: a name of engine.registry; None: the checkpoint tells. aliases: other names that
    ``model:=`` takes for this file. checkpoint: a name in
    phyai_ros/checkpoints, a directory, or a hub id. also: further ones of which the same holds,
    which only ``check`` looks up. revision: of a hub id. execution_horizon: rows
    executed of a chunk before the next takes over. robots: what is particular to a robot."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str | None = None
    description: str = ""
    aliases: tuple[str, ...] = ()
    checkpoint: Annotated[str, Field(min_length=1)]
    also: tuple[str, ...] = ()
    revision: str | None = None
    execution_horizon: Whole | None = None
    robots: dict[str, Any] = {}


def load(name_or_path: str) -> tuple[ModelFile, str]:
    """A model by name or by the path of its YAML, and that path. Raises RobotError listing what
    exists, or naming file, key, expected and found."""
    path = config_files.find("models", name_or_path)
    return config_files.validate(ModelFile, config_files.read_yaml(path), str(path)), str(path)


def robot_part(model: ModelFile, robot: str, source: str) -> ModelConfig:
    """What a model's YAML says about one robot; empty when it says nothing."""
    return for_robot(model.model_dump(), robot, source)


def checkpoint_path(name: str, source: str) -> str:
    """A checkpoint's name -> what the engine takes: a directory beside the model's YAML or among
    the embedded ones, else the name itself (another directory, or a hub id). An empty name stays
    one, for the engine to refuse."""
    if not name:
        return name
    beside = Path(source).parent / name
    return str(beside if beside.is_dir() else embedded.find(name) or name)


@dataclass(frozen=True)
class Choice:
    """What a policy is loaded with. checkpoint: as the engine takes it. part: what the model's YAML
    at ``source`` says about the robot."""

    checkpoint: str
    family: str | None
    embodiment: str | None
    revision: str | None
    part: ModelConfig
    source: str


def choose(name_or_path: str, robot: str, checkpoint: str = "", embodiment: str = "") -> Choice:
    """A model for a robot; checkpoint and embodiment, where given, in place of the model's own.
    Raises RobotError."""
    model, source = load(name_or_path)
    part = robot_part(model, robot, source)
    return Choice(
        checkpoint_path(checkpoint or model.checkpoint, source),
        model.family,
        embodiment or part.embodiment,
        None if checkpoint else model.revision,
        part,
        source,
    )
