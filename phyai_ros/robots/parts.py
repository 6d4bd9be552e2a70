# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The parts of a robot's YAML: joints and grippers, cameras, outputs, readiness."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from phyai_ros.robots.kinematics import Chain
from phyai_ros.robots.mapping import Affine, AnyMapping, Mapping
from phyai_ros.robots.numbers import (
    FARTHEST,
    Age,
    Number,
    OpenMetres,
    Positive,
    Whole,
    plausible,
    too_much,
)
from phyai_ros.robots.placement import Mount

_WORD = "[A-Za-z_~{][A-Za-z0-9_~{}]*"
TOPIC = re.compile(f"/?{_WORD}(/{_WORD})*")
"""A name that rcl takes: no word of it empty, none begins with a digit."""


def _topic(name: str) -> str:
    if not TOPIC.fullmatch(name):
        raise ValueError("expected a topic's name as /camera/scene/image_raw")
    return name


Topic = Annotated[str, AfterValidator(_topic)]


PLAUSIBLE = {
    "rad": {"position": FARTHEST["rad"], "velocity": 24.0, "acceleration": 100.0},
    "m": {"position": FARTHEST["m"], "velocity": 10.0, "acceleration": 100.0},
}
"""Unit -> the most that a joint's limits may be. Velocity: the quickest that was found stated is
the tool roll of CRS's A255, 23.6 rad/s or 1350 °/s (Universal Robots' wrists have 6.3, Franka's
5.3, ALOHA's servos less than 8); a SCARA's quill turns quicker and is given this, so that 25 °/s
are told from it. What slides has some 5 m/s. Acceleration: five times the 20 rad/s² that Franka
states for its quickest joints (Universal Robots states none, MoveIt takes 5 to 10 for them), which
leaves room for a gripper's motor; ten times gravity for what slides."""
_WHY = {
    ("velocity", "rad"): "hardly an arm has joints as quick; ",
    ("acceleration", "rad"): "Franka states 20 for its quickest joints; ",
}
_OF = {"offset": "position"}
"""Key of a joint -> the one whose bound is its own too."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gripper(Strict):
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
    stall_after: Annotated[Positive, plausible("s", 600.0)] = 10.0


def _unit(value: Any) -> Any:
    if value not in ("rad", "m"):
        raise ValueError(
            "expected 'rad' or 'm', as the robot's topics have them (of a policy that speaks "
            "degrees, scale: 57.29578 makes radians)"
        )
    return value


class Joint(Strict):
    """Robot side: unit, and limits in it: position (lower, upper), velocity a second, acceleration
    a second squared. Policy side: value = sign * scale * (position - offset)."""

    unit: Annotated[Literal["rad", "m"], BeforeValidator(_unit)] = "rad"
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

    @field_validator("position", "velocity", "acceleration", "offset")
    @classmethod
    def _plausible(cls, value: Any, info: ValidationInfo) -> Any:
        """Limits that no arm has are limits in another unit, and would hold nothing back."""
        unit, name = info.data.get("unit"), _OF.get(str(info.field_name), str(info.field_name))
        if unit is None:  # refused itself
            return value
        most = PLAUSIBLE[unit][name]
        if np.abs(value).max() > most:
            per = {"position": "", "velocity": "/s", "acceleration": "/s²"}[name]
            raise too_much(most, unit, per, _WHY.get((name, unit), ""))
        return value

    @field_validator("gripper")
    @classmethod
    def _closes(cls, value: Gripper | None, info: ValidationInfo) -> Gripper | None:
        """Closed where the joint never comes, it would never be seen closed, so never stalled."""
        limits = info.data.get("position")
        if value is None or value.closed is None or limits is None:
            return value
        if not limits[0] <= value.closed <= limits[1]:
            raise ValueError(f"closed: expected within the joint's position limits {list(limits)}")
        return value

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


ENCODINGS = ("rgb8", "bgr8", "rgba8", "bgra8", "mono8")
"""Of sensor_msgs/Image, that can be read."""
MOST_PIXELS = 1 << 25
"""Of a picture; a little more than 7680x4320."""
_NO_IMAGES = ("camera_info", "compressedDepth", "ffmpeg", "theora", "zstd")
"""Last names of topics beside a camera's that carry something else."""


def is_compressed(topic: str) -> bool:
    """Whether a camera's topic carries CompressedImage, as image_transport names it."""
    return topic.rpartition("/")[2] == "compressed"


class Camera(Strict):
    """topic: sensor_msgs/Image, or CompressedImage where its last name is ``compressed``.
    encoding: what it is expected to carry (of CompressedImage its whole ``format``), None for any
    that can be read. max_age: seconds.
    size: [height, width] it must have, None for any. optional: a frame may be made without it.
    mount: where it is, for pictures with the plan in them."""

    topic: Topic
    encoding: str | None = None
    max_age: Age = 0.2
    size: tuple[Whole, Whole] | None = None
    optional: bool = False
    mount: Mount | None = None

    @field_validator("topic")
    @classmethod
    def _pictures(cls, value: str) -> str:
        last = value.rpartition("/")[2]
        if last in _NO_IMAGES:
            raise ValueError(
                f"expected a topic of Image or, ending in compressed, CompressedImage"
                f", not of {last}"
            )
        return value

    @field_validator("encoding")
    @classmethod
    def _readable(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value in (None, *ENCODINGS) or is_compressed(info.data.get("topic", "")):
            return value
        raise ValueError(f"expected one of {', '.join(ENCODINGS)}, as the messages say it")

    @field_validator("size")
    @classmethod
    def _possible(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and value[0] * value[1] > MOST_PIXELS:
            raise ValueError(f"expected [height, width] of at most {MOST_PIXELS} pixels in all")
        return value


class WorkspaceBox(Strict):
    """Optional box for the tool centre point, metres in the base frame of ``chain``."""

    chain: Chain
    lower: tuple[OpenMetres, OpenMetres, OpenMetres]
    upper: tuple[OpenMetres, OpenMetres, OpenMetres]

    @model_validator(mode="after")
    def _ordered(self) -> WorkspaceBox:
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ValueError("lower, upper: expected lower < upper on every axis")
        return self


class Output(Strict):
    """How commands leave. joints: the controller's order, default: the robot's. name: what the
    driver calls this group of joints, or this joint (joint_group, joint_single)."""

    type: Literal["forward_command", "joint_trajectory", "joint_group", "joint_single"] = (
        "forward_command"
    )
    topic: Topic
    joints: tuple[str, ...] = ()
    name: str = ""


class SpeedScaling(Strict):
    """Where the robot says how fast it runs: std_msgs/Float64, ``full`` at full speed. Chunks are
    played in the robot's own time; stopped, or silent for ``max_age`` seconds, the arm is held."""

    topic: Topic
    full: Positive = 100.0
    max_age: Age = 1.0


_INTEGER = re.compile("U?Int(8|16|32|64)|Char")
_KINDS = {bool: "true or false without quotes", str: "words", int: "whole numbers"}


class Ready(Strict):
    """A topic on which the robot says whether it takes commands. type: package/msg/Name, whose
    package must be installed. field: of the message. values: those that mean yes. latched: the
    publisher is transient local, so that the last value reaches a late listener."""

    topic: Topic
    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*/msg/[A-Z][A-Za-z0-9]*$")]
    field: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "data"
    values: Annotated[tuple[bool | int | str, ...], Field(min_length=1)]
    latched: bool = True

    @field_validator("values")
    @classmethod
    def _of_its_type(cls, value: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        """One of another kind would never be what the robot says."""
        package, _, name = str(info.data.get("type", "")).partition("/msg/")
        kind = {"Bool": bool, "String": str}.get(name, int if _INTEGER.fullmatch(name) else None)
        if package != "std_msgs" or kind is None:
            return value
        if not all(type(v) is kind for v in value):
            raise ValueError(f"expected {_KINDS[kind]}, as {info.data['type']} has them")
        return value


class Tracking(Strict):
    """A joint that is no gripper and is measured farther than ``rad`` (or ``m``) from all that it
    was commanded in the last ``lag`` seconds, for ``after`` seconds in a row, does not do what it
    is told: the arm is held. lag: more than the robot ever is behind. A watch that can never speak
    is written as null, so that it is meant."""

    rad: Annotated[Positive, plausible("rad", 1.5)] = 0.2
    m: Annotated[Positive, plausible("m", 1.0)] = 0.05
    lag: Annotated[Positive, plausible("s", 10.0)] = 0.5
    after: Annotated[Positive, plausible("s", 10.0)] = 0.25
