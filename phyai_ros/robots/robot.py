# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The robot's YAML, checked: joints, limits, cameras, topics, output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from phyai_ros.control.guard import Limits
from phyai_ros.robots import config_files
from phyai_ros.robots.kinematics import Chain
from phyai_ros.robots.mapping import Affine, AnyMapping, JointMappings, Mapping
from phyai_ros.robots.numbers import Number, Open, Positive, Whole
from phyai_ros.robots.placement import Mount, Tool

Topic = Annotated[str, Field(pattern=r"^/?[A-Za-z_~{][A-Za-z0-9_/~{}]*$")]


PLAUSIBLE = {"rad": (8 * np.pi, 30.0, "degrees"), "m": (20.0, 20.0, "millimetres")}
"""Unit -> the most that a joint's limits may be, position and velocity, and the unit they are often
given in instead."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gripper(_Strict):
    """A joint that grips: never blended, never interpolated between two chunk rows, never started
    from its measured position while it squeezes something.

    state, command: mappings of their own, where the policy reads and commands it in other numbers.
    closed: the position at which it is closed, default the joint's lower limit. Held within a
    quarter of its travel of that for stall_after seconds of execution without a new command, it is
    reported as stalled.
    """

    state: AnyMapping = Affine()
    command: AnyMapping = Affine()
    closed: Number | None = None
    stall_after: Positive = 10.0


class Joint(_Strict):
    """Robot side: unit, and limits in it: position (lower, upper), velocity a second, acceleration
    a second squared. Policy side: value = sign * scale * (position - offset)."""

    unit: Literal["rad", "m"] = "rad"
    position: tuple[Number, Number]
    velocity: Positive
    acceleration: Positive
    sign: Literal[-1, 1] = 1
    offset: Number = 0.0
    scale: Positive = 1.0
    gripper: Gripper | None = None

    @field_validator("position")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("expected [lower, upper] with lower < upper")
        return value

    @model_validator(mode="after")
    def _plausible(self) -> Joint:
        """Limits that no arm has are limits in another unit, and would hold nothing back."""
        reach, speed, other = PLAUSIBLE[self.unit]
        farthest = max(abs(self.position[0]), abs(self.position[1]))
        if farthest > reach or self.velocity > speed:
            what = "position" if farthest > reach else "velocity"
            raise ValueError(
                f"{what}: expected {self.unit}: at most {reach:g} {self.unit} and {speed:g} "
                f"{self.unit}/s; is it in {other}?"
            )
        return self

    @model_validator(mode="after")
    def _one_mapping(self) -> Joint:
        plain = (self.sign, self.offset, self.scale) == (1, 0.0, 1.0)
        if self.gripper is not None and not plain:
            raise ValueError("sign, offset, scale: expected none beside gripper, it has its own")
        return self

    @property
    def state_mapping(self) -> Mapping:
        return self.gripper.state if self.gripper else self._affine()

    @property
    def command_mapping(self) -> Mapping:
        return self.gripper.command if self.gripper else self._affine()

    def _affine(self) -> Affine:
        return Affine(sign=self.sign, scale=self.scale, offset=self.offset)


class Camera(_Strict):
    """topic: sensor_msgs/Image, or CompressedImage where its last name is ``compressed``.
    encoding: what it is expected to carry, None for any that can be read. max_age: seconds.
    size: [height, width] it must have, None for any. optional: a frame may be made without it.
    mount: where it is, for pictures with the plan in them."""

    topic: Topic
    encoding: str | None = None
    max_age: Positive = 0.2
    size: tuple[Whole, Whole] | None = None
    optional: bool = False
    mount: Mount | None = None


class WorkspaceBox(_Strict):
    """Optional box for the tool centre point, metres in the base frame of ``chain``."""

    chain: Chain
    lower: tuple[Open, Open, Open]
    upper: tuple[Open, Open, Open]

    @model_validator(mode="after")
    def _ordered(self) -> WorkspaceBox:
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ValueError("lower, upper: expected lower < upper on every axis")
        return self


class Output(_Strict):
    """How commands leave. joints: the controller's order, default: the robot's. name: what the
    driver calls this group of joints, or this joint (joint_group, joint_single)."""

    type: Literal["forward_command", "joint_trajectory", "joint_group", "joint_single"] = (
        "forward_command"
    )
    topic: Topic
    joints: tuple[str, ...] = ()
    name: str = ""


class SpeedScaling(_Strict):
    """Where the robot says how fast it runs: std_msgs/Float64, ``full`` at full speed. Chunks are
    played in the robot's own time; stopped, or silent for ``max_age`` seconds, the arm is held."""

    topic: Topic
    full: Positive = 100.0
    max_age: Positive = 1.0


class Ready(_Strict):
    """A topic on which the robot says whether it takes commands. type: package/msg/Name, whose
    package must be installed. field: of the message. values: those that mean yes. latched: the
    publisher is transient local, so that the last value reaches a late listener."""

    topic: Topic
    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*/msg/[A-Z][A-Za-z0-9]*$")]
    field: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "data"
    values: Annotated[tuple[bool | int | str, ...], Field(min_length=1)]
    latched: bool = True


class Tracking(_Strict):
    """A joint that is no gripper and is measured farther than ``rad`` (or ``m``) from all that it
    was commanded in the last ``lag`` seconds, for ``after`` seconds in a row, does not do what it
    is told: the arm is held. lag: more than the robot ever is behind."""

    rad: Positive = 0.2
    m: Positive = 0.05
    lag: Positive = 0.5
    after: Positive = 0.25


class Robot(_Strict):
    """A robot as this package needs to know it. Joint order is the YAML's order.

    control_rate: Hz. joint_state_topics: sensor_msgs/JointState, each may bring some joints.
    joint_prefixes: topic of them -> what is put before every joint's name that it brings, where
    two arms speak of themselves in the same words.
    joint_max_age: seconds. max_skew: seconds between two cameras' images of one frame.
    actions: whether chunks of policies for this robot hold positions or, where neither the
    checkpoint nor its model config says otherwise, offsets from the observed position.
    gripper_output, further_outputs: for joints whose controllers are others than ``output``'s.
    conventions: by any name, joint mappings of policies that speak in other numbers than the
    joints' own; a model's config picks one.
    speed_scaling, ready: how the robot says that it is slowed down, and whether it takes commands;
    ready by any name, every one must hold.
    tracking: when the arm counts as not following its commands; null: never.
    tools: by any name, for pictures with the plan in them.
    """

    name: str
    description: str = ""
    control_rate: Annotated[Positive, Field(le=1000)]
    joints: Annotated[dict[str, Joint], Field(min_length=1)]
    joint_state_topics: Annotated[tuple[Topic, ...], Field(min_length=1)]
    joint_prefixes: dict[Topic, str] = {}
    joint_max_age: Positive = 0.2
    cameras: Annotated[dict[str, Camera], Field(min_length=1)]
    max_skew: Positive = 0.025
    output: Output
    gripper_output: Output | None = None
    further_outputs: tuple[Output, ...] = ()
    conventions: dict[str, dict[str, JointMappings]] = {}
    actions: Literal["absolute", "relative"] = "absolute"
    workspace: WorkspaceBox | None = None
    speed_scaling: SpeedScaling | None = None
    ready: dict[str, Ready] = {}
    tracking: Tracking | None = Tracking()
    tools: dict[str, Tool] = {}

    _source: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _consistent(self) -> Robot:
        self._check_outputs()
        chains = {f"tools.{name}.chain": tool.chain for name, tool in self.tools.items()}
        if self.workspace is not None:
            chains["workspace.chain"] = self.workspace.chain
        for key, chain in chains.items():
            for link in chain.links:
                if link.joint not in self.joints:
                    raise ValueError(
                        f"{key}.links: expected joints of {list(self.joints)}, found {link.joint!r}"
                    )
        for role, camera in self.cameras.items():
            if camera.mount is not None and camera.mount.tool not in ("", *self.tools):
                raise ValueError(
                    f"cameras.{role}.mount.tool: expected one of {list(self.tools)} or none, "
                    f"found {camera.mount.tool!r}"
                )
        for topic in self.joint_prefixes:
            if topic not in self.joint_state_topics:
                raise ValueError(
                    f"joint_prefixes: expected topics of {list(self.joint_state_topics)}, "
                    f"found {topic!r}"
                )
        unsaid = set(self.joints) - {j for part in self.joint_parts.values() for j in part.values()}
        if unsaid:
            raise ValueError(f"joint_prefixes: no topic brings {sorted(unsaid)}")
        for name, convention in self.conventions.items():
            for joint in convention:
                if joint not in self.joints:
                    raise ValueError(
                        f"conventions.{name}: expected joints of {list(self.joints)}, "
                        f"found {joint!r}"
                    )
        topics = [c.topic for c in self.cameras.values()]
        twice = sorted({t for t in topics if topics.count(t) > 1})
        if twice:
            raise ValueError(f"cameras: topics {twice} are given to two roles")
        return self

    def _check_outputs(self) -> None:
        for key, output in self._apart():
            if not output.joints:
                raise ValueError(f"{key}.joints: expected the joints that leave by it")
        order = [joint for _, joints in self.outputs for joint in joints]
        if sorted(order) != sorted(self.joints):
            missing = [j for j in self.joints if j not in order]
            unknown = [j for j in order if j not in self.joints]
            raise ValueError(
                f"output.joints: expected each of {list(self.joints)} once "
                f"(missing {missing}, unknown {unknown})"
            )

    @property
    def outputs(self) -> tuple[tuple[Output, tuple[str, ...]], ...]:
        """Every output with its joints in its controller's order; between them, each joint once."""
        apart = ((output, output.joints) for _, output in self._apart())
        return ((self.output, self.output_joints), *apart)

    def _apart(self) -> tuple[tuple[str, Output], ...]:
        """Every output but the first, with its key."""
        gripper = () if self.gripper_output is None else (("gripper_output", self.gripper_output),)
        more = ((f"further_outputs.{i}", o) for i, o in enumerate(self.further_outputs))
        return (*gripper, *more)

    @property
    def source(self) -> str:
        """The file it was read from, for messages."""
        return self._source or self.name

    @property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(self.joints)

    @property
    def joint_parts(self) -> dict[str, dict[str, str]]:
        """Joint-state topic -> joint's name on it -> joint, as one robot would say it all: every
        joint once, on the topic with its prefix, else on the first that has none."""
        plain = next((t for t in self.joint_state_topics if t not in self.joint_prefixes), None)
        parts: dict[str, dict[str, str]] = {}
        for joint in self.joints:
            fits = [t for t, p in self.joint_prefixes.items() if joint.startswith(p)]
            topic = fits[0] if fits else plain
            if topic is not None:
                word = joint.removeprefix(self.joint_prefixes.get(topic, ""))
                parts.setdefault(topic, {})[word] = joint
        return parts

    @property
    def discrete_joints(self) -> tuple[str, ...]:
        """Grippers: never interpolated or blended."""
        return tuple(name for name, joint in self.joints.items() if joint.gripper is not None)

    @property
    def output_joints(self) -> tuple[str, ...]:
        """The order in which the output wants its positions."""
        apart = {joint for _, output in self._apart() for joint in output.joints}
        return self.output.joints or tuple(j for j in self.joints if j not in apart)

    @property
    def period(self) -> float:
        """Control tick, seconds."""
        return 1.0 / self.control_rate

    def limits(self) -> Limits:
        """For the guard and the handoff: arrays in the order of joint_names, robot units."""
        joints = list(self.joints.values())
        return Limits(
            names=self.joint_names,
            lower=np.array([j.position[0] for j in joints]),
            upper=np.array([j.position[1] for j in joints]),
            velocity=np.array([j.velocity for j in joints]),
            acceleration=np.array([j.acceleration for j in joints]),
        )


def names() -> list[str]:
    """Names of the robots there are."""
    return config_files.names("robots")


def load(name_or_path: str | Path) -> Robot:
    """A robot by name or by the path of its YAML. Raises RobotError: unknown name (listing what
    exists), or file, key, expected and found for everything that is wrong in it."""
    path = config_files.find("robots", name_or_path)
    robot = config_files.validate(Robot, config_files.read_extended("robots", path), str(path))
    robot._source = str(path)
    return robot
