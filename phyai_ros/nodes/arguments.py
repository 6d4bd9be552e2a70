# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Arguments in ROS's ``name:=value`` form: described, typed, checked, refused by name. No rclpy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from phyai_ros.robots import config_files
from phyai_ros.robots.errors import RobotError

Value = str | bool | int | float
_WORDS = {"true": True, "false": False}


class ArgumentError(ValueError):
    """An argument that cannot be used; the text says which, found, and what exists."""


@dataclass(frozen=True)
class Argument:
    """The default's type is the argument's. known: a kind of configuration file (``models``,
    ``robots``) of which a name, or the path of a YAML file, is given. low, high: inclusive."""

    name: str
    default: Value
    description: str
    choices: tuple[str, ...] = ()
    known: str = ""
    low: float | None = None
    high: float | None = None

    def allowed(self) -> str:
        """The allowed values in words; empty for any text."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.known:
            return "one of " + ", ".join(config_files.names(self.known)) + ", or a YAML file"
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return ""
        whole = isinstance(self.default, int)
        text = "a whole number" if whole else "a number"
        for word, bound in (("from", self.low), ("to", self.high)):
            if bound is not None:
                text += f" {word} {bound:.0f}" if whole else f" {word} {bound:g}"
        return text

    def help(self) -> str:
        """Meaning and allowed values, for people."""
        allowed = self.allowed()
        return f"{self.description}; {allowed}" if allowed else self.description

    def closed_set(self) -> list[str] | None:
        """Every value there is, where the set is closed: a path may stand for a known name."""
        if isinstance(self.default, bool):
            return ["true", "false", "True", "False"]  # as YAML and as Python launch files write it
        return list(self.choices) or None

    def text(self) -> str:
        """The default as a user would write it."""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    def parse(self, text: str) -> Value:
        """Text -> value. Raises ArgumentError."""
        value = self._convert(text)
        if value is None:
            raise ArgumentError(f"{self.name}:={text!r}: expected {self.allowed()}")
        return value

    def _convert(self, text: str) -> Value | None:
        if isinstance(self.default, bool):
            return _WORDS.get(text.lower())
        if isinstance(self.default, str):
            if self.choices and text not in self.choices:
                return None
            if self.known:
                try:
                    config_files.find(self.known, text)
                except RobotError as error:
                    raise ArgumentError(f"{self.name}:={text}: {error}") from error
            return text
        try:
            number = type(self.default)(text)
        except ValueError:
            return None
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return number if math.isfinite(number) and low <= number <= high else None


def split(words: Sequence[str]) -> dict[str, str]:
    """``name:=value`` words -> text by name. Raises ArgumentError on another form or a repeat."""
    found: dict[str, str] = {}
    for word in words:
        name, separator, text = word.partition(":=")
        if not separator or not name:
            raise ArgumentError(f"{word!r}: expected name:=value, as in model:=gr00t")
        if name in found:
            raise ArgumentError(f"{name} is given twice: {found[name]!r} and {text!r}")
        found[name] = text
    return found


def parse(arguments: Iterable[Argument], given: Mapping[str, str]) -> dict[str, Value]:
    """Every argument's value: the given text's, else the default. Raises ArgumentError."""
    by_name = {argument.name: argument for argument in arguments}
    for name in given:
        if name not in by_name:
            close = difflib.get_close_matches(name, by_name, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ArgumentError(
                f"there is no argument {name!r}{hint}; there are: {', '.join(by_name)}"
            )
    return {
        name: argument.parse(given[name]) if name in given else argument.default
        for name, argument in by_name.items()
    }
