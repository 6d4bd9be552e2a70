# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What only a person can say about a checkpoint and a robot: which camera is which, and which
column is which joint, where the names do not tell. The ``robots`` part of config/models/*.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from phyai_ros.robots import config_files
from phyai_ros.robots.errors import RobotError
from phyai_ros.robots.mapping import JointMappings
from phyai_ros.robots.numbers import Number, Step, Whole
from phyai_ros.robots.yaml_file import shown


class ModelConfig(BaseModel):
    """One model on one robot; every key may be left out where the checkpoint's own names tell.

    cameras: checkpoint camera key -> camera role of the robot.
    state: per column of the state vector a joint's name, or a number that stands there always.
    action: per column of an action row a joint's name, or null for a column that moves nothing.
    convention: which of the robot's ``conventions`` the checkpoint speaks.
    mappings: joint -> mappings that differ from the robot's and from the convention's.
    relative: joints whose action columns are offsets from the observed position and are not made
        absolute by the checkpoint itself; default: what the robot's ``actions`` says.
    embodiment: the tag the checkpoint must be loaded with. step: seconds between rows, where the
    checkpoint does not say. horizon: rows it must have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cameras: dict[str, str] | None = None
    state: tuple[str | Number, ...] | None = None
    action: tuple[str | None, ...] | None = None
    convention: str | None = None
    mappings: dict[str, JointMappings] = {}
    relative: tuple[str, ...] | None = None
    embodiment: str | None = None
    step: Step | None = None
    horizon: Whole | None = None

    _instead: tuple[str, ...] = PrivateAttr(default=())

    @property
    def instead(self) -> tuple[str, ...]:
        """The robots that the model's YAML speaks of, where this one is none of them."""
        return self._instead


def for_robot(model: Mapping[str, Any], robot: str, source: str = "model config") -> ModelConfig:
    """The part of a model's YAML (already read) that is about one robot; empty when it has none."""
    robots = model.get("robots") or {}
    if not isinstance(robots, Mapping):
        raise RobotError(f"{source}: robots: expected robot names as keys, found {shown(robots)}")
    part = robots.get(robot) or {}
    config = config_files.validate(ModelConfig, part, f"{source}: robots.{robot}")
    if robot not in robots:
        config._instead = tuple(str(name) for name in robots)
    return config
