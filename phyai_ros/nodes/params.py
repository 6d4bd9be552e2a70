# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Node parameters as data: type, default, description, range or choices; checked in one place.

``choices`` and ranges reach ``ros2 param describe`` through the descriptor, and every refusal names
the parameter, the value and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    ParameterType,
)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

_TYPES = {
    bool: ParameterType.PARAMETER_BOOL,
    int: ParameterType.PARAMETER_INTEGER,
    float: ParameterType.PARAMETER_DOUBLE,
    str: ParameterType.PARAMETER_STRING,
}


class ParameterError(ValueError):
    """A parameter value that is not allowed; the text says which, found and allowed."""


@dataclass(frozen=True)
class Parameter:
    """One parameter. The default's type is the parameter's type (bool, int, float, str).

    low, high: inclusive bounds of a number. choices: allowed values of a string; empty: any.
    """

    name: str
    default: bool | int | float | str
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = True

    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices:
            return "one of " + ", ".join(f"'{choice}'" for choice in self.choices)
        kind = type(self.default).__name__
        if self.low is None and self.high is None:
            return f"any {kind}"
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"{kind} from {low} to {high}"

    def check(self, value: Any) -> bool | int | float | str:
        """The value in the parameter's own type; raises ParameterError."""
        kind = type(self.default)
        if kind is float and type(value) is int:  # `-p rate:=100` means 100.0
            value = float(value)
        valid = type(value) is kind
        if valid and kind is float:
            valid = math.isfinite(value)
        if valid and self.choices:
            valid = value in self.choices
        if valid and self.low is not None:
            valid = value >= self.low
        if valid and self.high is not None:
            valid = value <= self.high
        if not valid:
            raise ParameterError(
                f"parameter '{self.name}' is {value!r}; allowed: {self.allowed()} "
                f"({self.description})"
            )
        return value

    def descriptor(self) -> ParameterDescriptor:
        descriptor = ParameterDescriptor(
            name=self.name,
            type=_TYPES[type(self.default)],
            description=self.description,
            additional_constraints=self.allowed(),
            read_only=self.read_only,
            # rclpy would refuse an integer for a double before check() can convert it.
            dynamic_typing=isinstance(self.default, float),
        )
        bounded = self.low is not None and self.high is not None
        if bounded and type(self.default) is int:
            descriptor.integer_range = [
                IntegerRange(from_value=int(self.low or 0), to_value=int(self.high or 0), step=0)
            ]
        if bounded and type(self.default) is float:
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(self.low or 0), to_value=float(self.high or 0))
            ]
        return descriptor


def declare(node: Any, parameters: Iterable[Parameter]) -> None:
    """Declare every parameter on an rclpy node; raises ParameterError on a bad override."""
    for parameter in parameters:
        try:
            node.declare_parameter(parameter.name, parameter.default, parameter.descriptor())
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            overrides = getattr(node, "_parameter_overrides", {})
            found = overrides.get(parameter.name)
            parameter.check(getattr(found, "value", None))
            raise ParameterError(f"parameter '{parameter.name}': {error}") from error


def read(node: Any, parameters: Iterable[Parameter]) -> SimpleNamespace:
    """Every parameter's checked value, by name; raises ParameterError."""
    values = {p.name: p.check(node.get_parameter(p.name).value) for p in parameters}
    return SimpleNamespace(**values)


def unknown(node: Any, parameters: Iterable[Parameter]) -> tuple[str, ...]:
    """Overrides given to the node that no parameter takes: most often a typing mistake."""
    declared = {p.name for p in parameters} | set(node.get_parameters_by_prefix(""))
    known = declared | {"use_sim_time"}
    return tuple(
        name
        for name in getattr(node, "_parameter_overrides", {})
        if name not in known and not name.startswith("qos_overrides.")
    )


AUTOSTART = Parameter(
    "autostart",
    True,
    "configure and activate at start; false waits for lifecycle transitions from outside",
)
