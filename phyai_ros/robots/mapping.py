# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Between the numbers a robot speaks and the numbers a policy was trained on.

Every mapping is strictly monotone and exactly invertible; none clips: nothing is lost on the way.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from phyai_ros.robots.numbers import FARTHEST, Number, OfAJoint, Positive, plausible, too_much

Length = Annotated[Positive, plausible("m", 1.0)]
"""Of a gripper's part."""


class Mapping(Protocol):
    """Arrays of any shape; a scalar is an array of shape []."""

    def to_model(self, position: np.ndarray) -> np.ndarray: ...

    def to_robot(self, value: np.ndarray) -> np.ndarray: ...


class _Base(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Affine(_Base):
    """model = sign * scale * (robot - offset). scale 57.29578 gives degrees of radians."""

    kind: Literal["affine"] = "affine"
    sign: Literal[-1, 1] = 1
    scale: Positive = 1.0
    offset: OfAJoint = 0.0

    def to_model(self, position: np.ndarray) -> np.ndarray:
        return (self.sign * self.scale) * (position - self.offset)

    def to_robot(self, value: np.ndarray) -> np.ndarray:
        return value / (self.sign * self.scale) + self.offset


class Opening(_Base):
    """A gripper as a share: model 0 at robot position ``zero``, 1 at ``one``.

    Whether 1 means open or closed is the checkpoint's convention (DROID stores 1 - g, 1 closed):
    say it by which position is which.
    """

    kind: Literal["opening"] = "opening"
    zero: OfAJoint
    one: OfAJoint

    @model_validator(mode="after")
    def _apart(self) -> Opening:
        if self.zero == self.one:
            raise ValueError("zero and one: expected two different positions")
        return self

    def to_model(self, position: np.ndarray) -> np.ndarray:
        return (position - self.zero) / (self.one - self.zero)

    def to_robot(self, value: np.ndarray) -> np.ndarray:
        return self.zero + value * (self.one - self.zero)


class Side(_Base):
    """What one side of a crank speaks: a quantity, or a share of it (0 at ``zero``, 1 at ``one``).

    ``zero`` with ``one`` = ``zero`` + 1 takes an offset off.
    """

    quantity: Literal["opening", "angle"]
    zero: Number = 0.0
    one: Number = 1.0

    @field_validator("zero", "one")
    @classmethod
    def _plausible(cls, value: float, info: ValidationInfo) -> float:
        unit = {"opening": "m", "angle": "rad"}.get(info.data.get("quantity", ""))
        if unit is not None and abs(value) > FARTHEST[unit]:
            raise too_much(FARTHEST[unit], unit)
        return value

    @model_validator(mode="after")
    def _apart(self) -> Side:
        if self.zero == self.one:
            raise ValueError("zero and one: expected two different positions")
        return self

    def value(self, quantity: np.ndarray) -> np.ndarray:
        return (quantity - self.zero) / (self.one - self.zero)

    def read(self, value: np.ndarray) -> np.ndarray:
        return self.zero + value * (self.one - self.zero)


class Crank(_Base):
    """A gripper whose motor angle (rad) moves the fingers (m) through a crank, as ALOHA's.

    A horn of radius r and an arm of length a: angle = asin((r^2 + x^2 - a^2) / (2 r x)) at opening
    x, strictly rising up to the stretched crank, x = r + a, and only used up to there. ALOHA speaks
    openings in its state and angles in its commands, each as a share of its own range; checkpoints
    speak other shares of the angle. With the same quantity on both sides no crank comes in.
    Defaults: Interbotix ViperX 300, horn 22 mm, arm 36 mm.
    """

    kind: Literal["crank"] = "crank"
    robot: Side
    model: Side
    arm_length: Length = 0.036
    horn_radius: Length = 0.022

    @model_validator(mode="after")
    def _turns(self) -> Crank:
        if not self.horn_radius < self.arm_length:
            raise ValueError("horn_radius: expected less than arm_length")
        return self

    def to_model(self, position: np.ndarray) -> np.ndarray:
        return self._convert(position, self.robot, self.model)

    def to_robot(self, value: np.ndarray) -> np.ndarray:
        return self._convert(value, self.model, self.robot)

    def _convert(self, value: np.ndarray, source: Side, target: Side) -> np.ndarray:
        quantity = source.read(value)
        if source.quantity != target.quantity:
            turn = self._angle if target.quantity == "angle" else self._opening
            quantity = turn(quantity)
        return target.value(quantity)

    def _angle(self, opening: np.ndarray) -> np.ndarray:
        r, a = self.horn_radius, self.arm_length
        within = np.maximum(opening, a - r)  # less is no opening, and would mirror to a wide one
        sine = (r**2 + within**2 - a**2) / (2.0 * r * within)
        angle = np.arcsin(np.clip(sine, -1.0, 1.0))
        return np.where(np.isfinite(opening), angle, np.nan)

    def _opening(self, angle: np.ndarray) -> np.ndarray:
        # x^2 - 2 r sin(angle) x + r^2 - a^2 = 0; with a > r one root is positive.
        across = self.horn_radius * np.sin(angle)
        return across + np.sqrt(across**2 + self.arm_length**2 - self.horn_radius**2)


AnyMapping = Annotated[Affine | Opening | Crank, Field(discriminator="kind")]


class JointMappings(_Base):
    """In place of the robot's own mapping of one joint; what is left out stays the robot's."""

    state: AnyMapping | None = None
    command: AnyMapping | None = None
