# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The robot's YAML as a whole, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from phyai_ros.control.guard import Limits
from phyai_ros.robots import config_files, wiring
from phyai_ros.robots.errors import like
from phyai_ros.robots.mapping import JointMappings
from phyai_ros.robots.numbers import Age, Positive, Skew
from phyai_ros.robots.parts import (
    Camera,
    Joint,
    Output,
    Ready,
    SpeedScaling,
    Strict,
    Topic,
    Tracking,
    WorkspaceBox,
)
from phyai_ros.robots.placement import Tool


class Robot(Strict):
    """A robot as this package needs to know it. Joint order is the YAML's order.

    control_rate: Hz. joint_state_topics: sensor_msgs/JointState, each may bring some joints.
    joint_prefixes: topic of them -> what is put before every joint's name that it brings, where
    two arms speak of themselves in the same words.
    joint_max_age: seconds. max_skew: seconds between two cameras' images of one frame.
    actions: whether chunks of policies for this robot hold positions or, where its model config
    does not say otherwise, offsets from the observed position. A checkpoint that makes them
    absolute itself is refused where they are said to be offsets.
    gripper_output, further_outputs: for joints whose controllers are others than ``output``'s.
    conventions: by any name, joint mappings of policies that speak in other numbers than the
    joints' own; a model's config picks one.
    speed_scaling, ready: how the robot says that it is slowed down, and whether it takes commands;
    ready by any name, every one must hold.
    tracking: when the arm counts as not following its commands; null: never.
    tools: by any name, for pictures with the plan in them.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    control_rate: Annotated[Positive, Field(le=1000)]
    joints: Annotated[dict[str, Joint], Field(min_length=1)]
    joint_state_topics: Annotated[tuple[Topic, ...], Field(min_length=1)]
    joint_prefixes: dict[Topic, str] = Field(default_factory=dict)
    joint_max_age: Age = 0.2
    cameras: Annotated[dict[str, Camera], Field(min_length=1)]
    max_skew: Skew = 0.025
    output: Output
    gripper_output: Output | None = None
    further_outputs: tuple[Output, ...] = ()
    conventions: dict[str, dict[str, JointMappings]] = Field(default_factory=dict)
    actions: Literal["absolute", "relative"] = "absolute"
    workspace: WorkspaceBox | None = None
    speed_scaling: SpeedScaling | None = None
    ready: dict[str, Ready] = Field(default_factory=dict)
    tracking: Tracking | None = Tracking()
    tools: dict[str, Tool] = Field(default_factory=dict)

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
                        f"{key}.links: expected joints of {list(self.joints)}, found "
                        f"{link.joint!r}{like(link.joint, self.joint_names, 'joints')}"
                    )
                if self.joints[link.joint].unit != "rad":
                    raise ValueError(
                        f"{key}.links: expected joints that turn (unit: rad), found {link.joint!r}"
                    )
        for role, camera in self.cameras.items():
            tool = "" if camera.mount is None else camera.mount.tool
            if tool not in ("", *self.tools):
                raise ValueError(
                    f"cameras.{role}.mount.tool: expected one of {list(self.tools)} or none, "
                    f"found {tool!r}{like(tool, list(self.tools), 'tools')}"
                )
        for topic in self.joint_prefixes:
            if topic not in self.joint_state_topics:
                raise ValueError(
                    f"joint_prefixes: expected topics of {list(self.joint_state_topics)}, "
                    f"found {topic!r}{like(topic, self.joint_state_topics, 'joint_state_topics')}"
                )
        unsaid = set(self.joints) - {j for part in self.joint_parts.values() for j in part.values()}
        if unsaid:
            raise ValueError(f"joint_prefixes: no topic brings {sorted(unsaid)}")
        for name, convention in self.conventions.items():
            for joint in convention:
                if joint not in self.joints:
                    raise ValueError(
                        f"conventions.{name}: expected joints of {list(self.joints)}, "
                        f"found {joint!r}{like(joint, self.joint_names, 'joints')}"
                    )
        if twice := _repeated([c.topic for c in self.cameras.values()]):
            raise ValueError(f"cameras: topics {twice} are given to two roles")
        if twice := _repeated(self.joint_state_topics):
            raise ValueError(f"joint_state_topics: expected every topic once, repeated: {twice}")
        wiring.check(self._uses())
        return self

    def _check_outputs(self) -> None:
        for (key, output), (_, joints) in zip(self._keyed_outputs(), self.outputs, strict=True):
            if not joints:
                raise ValueError(f"{key}.joints: expected the joints that leave by it")
            wiring.check_driver(key, output, joints)
        order = [joint for _, joints in self.outputs for joint in joints]
        if sorted(order) != sorted(self.joints):
            missing = [j for j in self.joints if j not in order]
            unknown = [j for j in order if j not in self.joints]
            hints = "".join(like(j, missing, "joints") for j in unknown)
            raise ValueError(
                f"output.joints: expected each of {list(self.joints)} once "
                f"(missing {missing}, unknown {unknown}){hints}"
            )

    def _uses(self) -> Iterator[wiring.Use]:
        """Every topic that is named here."""
        for topic in self.joint_state_topics:
            yield wiring.Use("joint_state_topics", topic, "sensor_msgs/msg/JointState")
        for role, camera in self.cameras.items():
            yield wiring.Use(f"cameras.{role}.topic", camera.topic, wiring.image(camera))
        if self.speed_scaling is not None:
            topic = self.speed_scaling.topic
            yield wiring.Use("speed_scaling.topic", topic, "std_msgs/msg/Float64")
        for name, ready in self.ready.items():
            yield wiring.Use(f"ready.{name}.topic", ready.topic, ready.type)
        for key, output in self._keyed_outputs():
            yield wiring.command(f"{key}.topic", output)

    @property
    def outputs(self) -> tuple[tuple[Output, tuple[str, ...]], ...]:
        """Every output with its joints in its controller's order; between them, each joint once."""
        apart = ((output, output.joints) for _, output in self._apart())
        return ((self.output, self.output_joints), *apart)

    def _keyed_outputs(self) -> tuple[tuple[str, Output], ...]:
        return (("output", self.output), *self._apart())

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


def _repeated(topics: Sequence[str]) -> list[str]:
    heard = [wiring.heard(topic) for topic in topics]
    return sorted({t for t, at in zip(topics, heard, strict=True) if heard.count(at) > 1})


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
