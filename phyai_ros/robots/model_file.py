# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""config/models/*.yaml, checked: which checkpoint a model is by default, and how it is driven."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

import phyai_ros
from phyai_ros.robots import config_files
from phyai_ros.robots.model_config import ModelConfig


class ModelFile(BaseModel):
    """family: a name in the engine's registry. checkpoint: a directory, a folder in
    ``phyai_ros/checkpoints`` or a hub id. execution_horizon: rows executed of a chunk before the
    next one takes over. robots: what each robot's binding needs to be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str
    description: str = ""
    checkpoint: str
    execution_horizon: Annotated[int, Field(ge=1)]
    robots: dict[str, ModelConfig] = {}

    _source: str = PrivateAttr(default="")

    @property
    def source(self) -> str:
        """The file it was read from, for messages."""
        return self._source

    def for_robot(self, robot: str) -> ModelConfig:
        """What is said about one robot; a config that leaves everything to the names if nothing."""
        return self.robots.get(robot, ModelConfig())


def load(name_or_path: str | Path) -> ModelFile:
    """A model by name or by the path of its YAML. Raises RobotError: unknown name (listing what
    exists), or file, key, expected and found for everything that is wrong in it."""
    path = config_files.find("models", name_or_path)
    model = config_files.validate(ModelFile, config_files.read_yaml(path), str(path))
    model._source = str(path)
    return model


def checkpoint(name: str) -> str:
    """A checkpoint's name as the engine takes it: one of this package's own becomes its directory,
    any other is left as it is."""
    own = Path(*phyai_ros.__path__, "checkpoints", name)
    return str(own) if name and own.is_dir() and not Path(name).exists() else name
