# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which camera and which joint stands behind each key and column of a checkpoint. By name or by
configuration, never by position alone: order is where arms get hurt."""

from __future__ import annotations

from collections.abc import Sequence

from phyai_ros.engine.types import PolicySpec
from phyai_ros.robots.errors import RobotError, like
from phyai_ros.robots.model_config import ModelConfig
from phyai_ros.robots.robot import Robot


class Problems:
    """Everything that does not fit, so that one run tells it all."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._lines: list[str] = []

    def add(self, text: str) -> None:
        self._lines.append(text)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def raise_if_any(self) -> None:
        if self._lines:
            raise RobotError("\n".join(self._lines))


def _last(key: str) -> str:
    """``observation.images.wrist`` -> ``wrist``; ``elbow_joint.pos`` -> ``elbow_joint``."""
    return key.removesuffix(".pos").rsplit(".", 1)[-1].rsplit("/", 1)[-1]


def bind_cameras(
    robot: Robot, spec: PolicySpec, config: ModelConfig, wrong: Problems
) -> dict[str, str]:
    """Checkpoint camera key -> role."""
    keys = [*spec.cameras, *(k for k in spec.optional_cameras if k not in spec.cameras)]
    roles = list(robot.cameras)
    given = config.cameras or {}
    for key in given:
        if key not in keys:
            wrong.add(
                f"{wrong.where}: cameras.{key}: the checkpoint {spec.checkpoint} has no such "
                f"camera{like(key, keys)}; it has {keys}"
            )
    bound: dict[str, str] = {}
    for key in keys:
        role = given.get(key) or (key if key in robot.cameras else _last(key))
        if role in robot.cameras:
            if role in bound.values():
                wrong.add(f"{wrong.where}: cameras.{key}: role {role!r} is used by another key")
            bound[key] = role
        elif key in given:
            wrong.add(
                f"{wrong.where}: cameras.{key}: expected one of the roles {roles} of "
                f"{robot.source}, found {role!r}{like(role, roles)}"
            )
        elif key not in spec.optional_cameras:
            wrong.add(
                f"{wrong.where}: cameras.{key}: missing: the checkpoint {spec.checkpoint} needs "
                f"this camera and {robot.source} has the roles {roles}; say which one it is"
            )
    return bound


def bind_state(
    robot: Robot, spec: PolicySpec, config: ModelConfig, wrong: Problems
) -> tuple[str | float, ...]:
    """Per state column a joint, or a constant."""
    if config.state is None:
        return _by_name(robot, spec.state_names, "state", spec, wrong)
    _check_width(len(config.state), spec.state_dim, spec.state_names, "state", spec, wrong)
    joints = [c for c in config.state if isinstance(c, str)]
    _check_joints(joints, robot, "state", wrong)
    return config.state


def bind_action(
    robot: Robot, spec: PolicySpec, config: ModelConfig, wrong: Problems
) -> tuple[str | None, ...]:
    """Per action column a joint, or None. Every joint of the robot has its column."""
    if config.action is None:
        action: tuple[str | None, ...] = tuple(
            c if isinstance(c, str) else None
            for c in _by_name(robot, spec.action_names, "action", spec, wrong)
        )
    else:
        action = config.action
        _check_width(len(action), spec.action_dim, spec.action_names, "action", spec, wrong)
        _check_joints([c for c in action if c is not None], robot, "action", wrong)
    uncommanded = [j for j in robot.joints if j not in action]
    if uncommanded and config.action is not None:
        wrong.add(
            f"{wrong.where}: action: no column moves {uncommanded} of {robot.source}; "
            f"found {list(action)}: say which column does, or take them out of its joints"
        )
    return action


def _by_name(
    robot: Robot, names: Sequence[str], key: str, spec: PolicySpec, wrong: Problems
) -> tuple[str | float, ...]:
    bound = [n if n in robot.joints else _last(n) for n in names]
    if sorted(bound) == sorted(robot.joints):
        return tuple(bound)
    if len(names) != len(robot.joints):
        wrong.add(
            f"{wrong.where}: {key}: the checkpoint {spec.checkpoint} has {len(names)} columns "
            f"{list(names)}, {robot.source} has {len(robot.joints)} joints {list(robot.joints)}; "
            f"list one joint a column"
            + (", and have no other joints" if len(names) < len(robot.joints) else "")
        )
    else:
        wrong.add(
            f"{wrong.where}: {key}: missing: the checkpoint {spec.checkpoint} names its columns "
            f"{list(names)}, which are not the joints {list(robot.joints)} of {robot.source}; "
            f"list one joint a column, in the checkpoint's order"
        )
    return ()


def _check_width(
    found: int, expected: int, names: Sequence[str], key: str, spec: PolicySpec, wrong: Problems
) -> None:
    if found != expected:
        wrong.add(
            f"{wrong.where}: {key}: expected {expected} entries, one for each column "
            f"{list(names)} of {spec.checkpoint}, found {found}"
        )


def _check_joints(joints: Sequence[str], robot: Robot, key: str, wrong: Problems) -> None:
    known = list(robot.joints)
    for name in dict.fromkeys(joints):
        if name not in robot.joints:
            wrong.add(
                f"{wrong.where}: {key}: expected joints of {robot.source}, {known}, "
                f"found {name!r}{like(name, known)}"
            )
        if joints.count(name) > 1:
            wrong.add(f"{wrong.where}: {key}: joint {name!r} is given {joints.count(name)} times")


def check_step(robot: Robot, spec: PolicySpec, config: ModelConfig, wrong: Problems) -> float:
    """Seconds between rows."""
    if spec.step and config.step and abs(spec.step - config.step) > 1e-6:
        wrong.add(
            f"{wrong.where}: step: expected {spec.step:g} s as the checkpoint "
            f"{spec.checkpoint} says, found {config.step:g}"
        )
    step = spec.step or config.step
    if step is None:
        wrong.add(
            f"{wrong.where}: step: missing: the checkpoint {spec.checkpoint} does not say how "
            f"many seconds lie between two of its rows (1 / the rate of its training data)"
        )
        return robot.period
    ratio = step / robot.period
    if round(ratio) < 1 or abs(ratio - round(ratio)) > 1e-3 * round(ratio):
        wrong.add(
            f"{robot.source}: control_rate: expected a whole multiple of {1 / step:.6g} Hz, the "
            f"rate of {spec.checkpoint}, found {robot.control_rate:g}"
        )
    return step


def check_rest(robot: Robot, spec: PolicySpec, config: ModelConfig, wrong: Problems) -> None:
    if config.horizon is not None and config.horizon != spec.horizon:
        wrong.add(
            f"{wrong.where}: horizon: expected {spec.horizon} as in {spec.checkpoint}, "
            f"found {config.horizon}"
        )
    if config.embodiment is not None and config.embodiment != spec.embodiment:
        wrong.add(
            f"{wrong.where}: embodiment: expected one of {list(spec.embodiments)} of "
            f"{spec.checkpoint} (loaded as {spec.embodiment!r}), found {config.embodiment!r}"
            f"{like(config.embodiment, spec.embodiments)}"
        )
    if config.convention is not None and config.convention not in robot.conventions:
        known = list(robot.conventions)
        wrong.add(
            f"{wrong.where}: convention: expected one of {robot.source}, {known}, "
            f"found {config.convention!r}{like(config.convention, known)}"
        )
    for key in ("mappings", "relative"):
        for name in getattr(config, key) or ():
            if name not in robot.joints:
                wrong.add(
                    f"{wrong.where}: {key}: expected joints of {robot.source}, "
                    f"{list(robot.joints)}, found {name!r}{like(name, list(robot.joints))}"
                )
