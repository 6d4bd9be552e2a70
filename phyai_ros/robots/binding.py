# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint on a robot: checked once, then frames in and chunks out, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from phyai_ros.engine.types import Observation, PolicySpec
from phyai_ros.robots import columns, offsets, travel
from phyai_ros.robots.config_files import validate
from phyai_ros.robots.errors import NumbersError, RobotError
from phyai_ros.robots.mapping import Mapping as ValueMapping
from phyai_ros.robots.model_config import ModelConfig
from phyai_ros.robots.robot import Robot
from phyai_ros.robots.trained import Trained


class FrameLike(Protocol):
    """What is used of control.frame.Frame."""

    @property
    def stamp(self) -> float: ...

    @property
    def images(self) -> Mapping[str, np.ndarray]: ...

    @property
    def joints(self) -> Mapping[str, float]: ...


def other_name(robot: Robot, config: ModelConfig, source: str) -> str:
    """What is said of a model's YAML that speaks of other robots only."""
    return (
        f"{source}: robots: expected {robot.name!r}, the name of {robot.source}, found "
        f"{list(config.instead)}: is the name in one of the files another than meant?"
    )


class Binding:
    """Raises RobotError at construction for everything that does not fit, all in one message;
    NumbersError where columns are known and their numbers cannot be meant.

    robot: the description. spec: of the loaded checkpoint. config: what the model's YAML says
    about this robot (``model_config.for_robot``), a mapping with the same keys, or None.
    source: the model's YAML, for messages.
    doubts: columns whose numbers are likely not meant so, one a line; for people.
    """

    def __init__(
        self,
        robot: Robot,
        spec: PolicySpec,
        config: ModelConfig | Mapping[str, Any] | None = None,
        *,
        source: str = "",
    ) -> None:
        self.robot = robot
        self.spec = spec
        where = source or f"model config of {spec.family}"
        self._where = f"{where}: robots.{robot.name}"
        if not isinstance(config, ModelConfig):
            config = validate(ModelConfig, dict(config or {}), self._where)
        self.config = config
        wrong = columns.Problems(self._where)
        self.roles = columns.bind_cameras(robot, spec, config, wrong)
        self._state = columns.bind_state(robot, spec, config, wrong)
        self._action = columns.bind_action(robot, spec, config, wrong)
        self.step = columns.check_step(robot, spec, config, wrong)
        columns.check_rest(robot, spec, config, wrong)
        if wrong and config.instead:
            wrong.add(other_name(robot, config, where))
        wrong.raise_if_any()
        self.horizon = spec.horizon
        self.joint_names = robot.joint_names
        self._state_maps = self._maps("state")
        self._command_maps = self._maps("command")
        self._relative = self._relative_joints()
        self._trained = Trained(spec, np.array([self._scale(column) for column in self._state]))
        self._trained.ignore(np.array([not isinstance(column, str) for column in self._state]))
        self._check_numbers()
        # Column of the action row behind each joint, in the robot's order.
        self._column = [self._action.index(name) for name in self.joint_names]

    def _check_numbers(self) -> None:
        """What training saw, in this robot's units."""
        robot, spec = self.robot, self.spec
        said = offsets.Said(robot, self._relative, self._where, self.config.relative is not None)
        made_absolute = offsets.made_absolute(spec, self._action)
        apart = self._relative | made_absolute.keys()
        absolute = [None if name in apart else name for name in self._action]
        state = travel.compare(robot, self._state, self._state_maps, spec.state)
        action = travel.compare(robot, absolute, self._command_maps, spec.action)
        wrong = [f"{self._where}: {line}" for line in travel.problems(state, "state", robot.source)]
        if not wrong:  # which is of the same joints, mostly
            lines = travel.problems(action, "action", robot.source)
            wrong = [f"{self._where}: {line}" for line in lines]
        sent = offsets.compare(spec, self._action, self._command_maps, state)
        wrong += offsets.problems(said, spec, made_absolute, sent)
        if wrong:
            raise NumbersError("\n".join(wrong))
        found = {**travel.doubts(action, "action"), **travel.doubts(state, "state")}
        unsaid = offsets.doubt(said, made_absolute, sent)
        self.doubts = (*found.values(), *([unsaid] if unsaid else ()))

    def _maps(self, side: str) -> dict[str, ValueMapping]:
        maps = {}
        convention = self.robot.conventions.get(self.config.convention or "", {})
        for name, joint in self.robot.joints.items():
            given = (self.config.mappings.get(name), convention.get(name))
            overrides = [getattr(own, side) for own in given if own is not None]
            overrides.append(getattr(joint, f"{side}_mapping"))
            maps[name] = next(mapping for mapping in overrides if mapping is not None)
        return maps

    def _scale(self, column: str | float) -> float:
        """The checkpoint's units in one of the robot's, over a joint's whole travel."""
        if not isinstance(column, str):
            return 1.0
        travel = np.array(self.robot.joints[column].position, np.float64)
        ends = self._state_maps[column].to_model(travel)
        return float((ends[1] - ends[0]) / (travel[1] - travel[0]))

    def _relative_joints(self) -> frozenset[str]:
        if self.config.relative is not None:
            return frozenset(self.config.relative)
        if self.robot.actions == "absolute":
            return frozenset()
        grippers = self.robot.discrete_joints
        return frozenset(n for n in self.joint_names if n not in grippers)

    # -- frame -> policy ---------------------------------------------------------------------

    @property
    def cameras(self) -> tuple[str, ...]:
        """Camera roles that are used; the aligner waits for these."""
        return tuple(self.roles.values())

    @property
    def optional_cameras(self) -> tuple[str, ...]:
        """Roles among them that a frame may lack."""
        return tuple(r for k, r in self.roles.items() if k in self.spec.optional_cameras)

    def images(self, frame: FrameLike) -> dict[str, np.ndarray]:
        """Checkpoint camera key -> the frame's image, for the roles the frame has."""
        return {k: frame.images[r] for k, r in self.roles.items() if r in frame.images}

    def state(self, joints: Mapping[str, float]) -> np.ndarray:
        """Joint positions by name (robot units) -> float64 [state_dim] in the checkpoint's order
        and units. Raises RobotError naming joints that are absent, not finite, or so far from what
        the checkpoint was trained on that they can only be in another unit or column."""
        out = np.empty(len(self._state))
        for i, column in enumerate(self._state):
            if not isinstance(column, str):
                out[i] = column
                continue
            if column not in joints:
                raise RobotError(f"state: joint {column!r} is missing; found {sorted(joints)}")
            out[i] = self._state_maps[column].to_model(np.asarray(joints[column], np.float64))
        if not np.isfinite(out).all():
            bad = [str(self._state[i]) for i in np.flatnonzero(~np.isfinite(out))]
            raise RobotError(f"state: {bad} are not finite numbers")
        wild = self._trained.outside(out)
        if len(wild):
            i = int(wild[0])
            raise RobotError(
                f"state: {self._state[i]!r} is {self._trained.why(i, float(out[i]))} "
                f"({self.spec.checkpoint}, {self.robot.source}, {self._where})"
            )
        return out

    def joints(self, state: Sequence[float] | np.ndarray) -> dict[str, float]:
        """The inverse of ``state``: joint name -> robot units, for the joints it has."""
        values = np.asarray(state, dtype=np.float64)
        return {
            column: float(self._state_maps[column].to_robot(values[i]))
            for i, column in enumerate(self._state)
            if isinstance(column, str)
        }

    def observation(
        self, frame: FrameLike, instruction: str, history: Sequence[Observation] = ()
    ) -> Observation:
        """A frame -> what the engine takes. history: as in engine.types.Observation."""
        return Observation(
            images=self.images(frame),
            state=self.state(frame.joints),
            instruction=instruction,
            stamp=frame.stamp,
            history=history,
        )

    # -- policy -> joints --------------------------------------------------------------------

    def positions(self, actions: np.ndarray, joints: Mapping[str, float]) -> np.ndarray:
        """Action rows [n, action_dim] -> float64 [n, joints], columns as joint_names, robot units.

        joints: the observation's joint positions (robot units), for relative columns. Values that
        are not finite stay so: the handoff refuses the chunk whole.
        """
        rows = self._rows(actions, self.spec.action_dim, "actions")
        out = np.empty((len(rows), len(self.joint_names)))
        for i, name in enumerate(self.joint_names):
            value = rows[:, self._column[i]]
            if name in self._relative:
                value = value + self._anchor(name, joints)
            out[:, i] = self._command_maps[name].to_robot(value)
        return out

    def actions(self, positions: np.ndarray, joints: Mapping[str, float]) -> np.ndarray:
        """The inverse of ``positions``: [n, joints] robot units -> [n, action_dim], relative
        columns anchored at ``joints``. Columns that move nothing are 0."""
        rows = self._rows(positions, len(self.joint_names), "positions")
        out = np.zeros((len(rows), self.spec.action_dim))
        for i, name in enumerate(self.joint_names):
            value = self._command_maps[name].to_model(rows[:, i])
            if name in self._relative:
                value = value - self._anchor(name, joints)
            out[:, self._column[i]] = value
        return out

    def action_columns(self, exclude: Sequence[str] = ()) -> np.ndarray:
        """bool [action_dim]: columns that move a joint which is not in ``exclude``."""
        used = [self._column[i] for i, n in enumerate(self.joint_names) if n not in exclude]
        return np.isin(np.arange(self.spec.action_dim), used)

    def _anchor(self, name: str, joints: Mapping[str, float]) -> float:
        return float(self._command_maps[name].to_model(np.asarray(joints[name], np.float64)))

    @staticmethod
    def _rows(values: np.ndarray, width: int, what: str) -> np.ndarray:
        rows = np.asarray(values, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise RobotError(f"{what}: expected [rows, {width}], found {list(rows.shape)}")
        return rows
