# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""YAML from anybody: read safely, strictly and within bounds.

No tag builds anything but plain values, a repeated key is an error, and what a few lines may unfold
to is bounded. Plain words follow YAML 1.2's core schema, so that a number is what it looks like:
YAML 1.1, PyYAML's own, reads ``1:30`` as 90, ``010`` as 8, ``no`` as false and a date as a date.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from phyai_ros.robots.errors import RobotError

LARGEST = 256 * 1024
"""Bytes of a file; a robot with two arms and four cameras takes some 4 KiB."""
MOST_VALUES = 20_000
"""Values that a file may hold, those that an alias repeats counted each time."""
DEEPEST = 32
"""Levels of nesting."""

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (add_implicit_resolver fills it)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, "expected a plain word as key", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            if isinstance(value_node, yaml.ScalarNode) and (
                (value_node.tag, value_node.value, value_node.style) == (_TAG + "null", "", None)
            ):  # what stood below may be commented out: a guard, say
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"key {key!r} has no value: write null if none is meant",
                    key_node.start_mark,
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _whole(loader: yaml.SafeLoader, node: Any) -> int:
    return int(loader.construct_scalar(node))


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor(_TAG + "int", _whole)


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's top-level mapping. Raises RobotError with file, line and reason."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        data = _parse(path, content)
    except RobotError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise RobotError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).split()).replace('in "<unicode string>", line', "at line")
        raise RobotError(f"{path}: {text}") from error
    except ValueError as error:  # a tag whose text does not fit, ``!!int x``
        raise RobotError(f"{path}: {str(error)[:200]}") from error
    except RecursionError:
        raise RobotError(f"{path}: expected at most {DEEPEST} levels, found more") from None
    if not isinstance(data, dict):
        raise RobotError(f"{path}: expected keys and values, found {type(data).__name__}")
    _check_size(path, data)
    return data


def _parse(path: Path, content: bytes) -> Any:
    if len(content) > LARGEST:
        raise RobotError(f"{path}: expected at most {LARGEST} bytes, found more")
    return yaml.load(content.decode("utf-8"), Loader=_Loader)


def shown(value: object) -> str:
    """A value of a file as it may stand in a message: never longer than a few lines."""
    return _REPR.repr(value)


def _check_size(path: Path, data: Any) -> None:
    """An alias is one object here, but whoever walks the values meets it each time, and one that
    leads back to itself for ever."""
    waiting, count = [(data, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise RobotError(
                f"{path}: expected at most {MOST_VALUES} values, found more (each use of an alias "
                f"counts what it stands for)"
            )
        if depth > DEEPEST:
            raise RobotError(f"{path}: expected at most {DEEPEST} levels, found more")
        if isinstance(value, dict):
            waiting += [(v, depth + 1) for v in value.values()]
        elif isinstance(value, (list, set, tuple)):
            waiting += [(v, depth + 1) for v in value]


class _Repr(reprlib.Repr):
    def repr_str(self, value: str, level: int) -> str:
        short = value if len(value) <= self.maxstring else value[: self.maxstring] + "..."
        return repr(short)

    def repr_int(self, value: int, level: int) -> str:
        return repr(value) if abs(value) < 10**40 else "a number of more than 40 digits"


_REPR = _Repr()
_REPR.maxstring, _REPR.maxdict, _REPR.maxlist, _REPR.maxtuple = 200, 12, 12, 12
