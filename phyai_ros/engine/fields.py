# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A parsed configuration against its own annotations: JSON promises no types and no bounds.

Without this a ``depth`` of 10^12 would build layers until the memory ends, and a size of ``true``
would be 1.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from phyai_ros.engine.types import PolicyError

LARGEST = 1 << 24
"""Of any whole number: more than any width, vocabulary or table of a published policy."""
LARGEST_OF = {"layer": 512, "depth": 512, "steps": 10_000, "horizon": 10_000, "chunk_size": 10_000}
"""Of fields with such a word in their name: things that are built or run one by one."""
LEAST = -1
"""Of any whole number: LeRobot writes -1 for "as many as there are"."""


def whole(value: Any, where: str) -> int:
    """A whole number from 1. Raises PolicyError naming where, which has file and key."""
    fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST
    if not fits:
        raise PolicyError(
            f"{where}: expected a whole number from 1 to {LARGEST}, found {repr(value)[:100]}"
        )
    return int(value)


def flag(given: Mapping[str, Any], key: str, default: bool, where: str) -> bool:
    """given[key], or ``default`` where it is absent or null. Raises PolicyError naming where and
    key for anything but a boolean: the text "false" would count as true."""
    value = given.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"{where}: {key}: expected true or false, found {repr(value)[:100]}")
    return value


def check_fields(config: Any, where: str, path: str = "") -> None:
    """Raise PolicyError naming where, field, expected and found, unless every field of a dataclass
    is what its annotation says: whole numbers within bounds and no booleans, finite numbers,
    booleans, text, tuples and dataclasses of these, or None where that is allowed."""
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        key = f"{path}.{field.name}" if path else field.name
        _check(getattr(config, field.name), hints[field.name], where, key)


def _check(value: Any, hint: Any, where: str, key: str) -> None:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        choices = typing.get_args(hint)
        if value is None and type(None) in choices:
            return
        (hint,) = [c for c in choices if c is not type(None)]
        origin = typing.get_origin(hint)
    if origin is tuple:
        _check_tuple(value, typing.get_args(hint), where, key)
    elif is_dataclass(hint):
        check_fields(value, where, key)
    elif hint is bool:
        _expect(isinstance(value, bool), "true or false", value, where, key)
    elif hint is int:
        most = next((n for word, n in LARGEST_OF.items() if word in key.lower()), LARGEST)
        fits = isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= most
        _expect(fits, f"a whole number from {LEAST} to {most}", value, where, key)
    elif hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _expect(number and math.isfinite(value), "a finite number", value, where, key)
    elif hint is str:
        _expect(isinstance(value, str), "text", value, where, key)


def _check_tuple(value: Any, hints: tuple[Any, ...], where: str, key: str) -> None:
    _expect(isinstance(value, (tuple, list)), "a list", value, where, key)
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = (hints[0],) * len(value)
    _expect(len(value) == len(hints), f"{len(hints)} entries", value, where, key)
    for i, (item, hint) in enumerate(zip(value, hints, strict=True)):
        _check(item, hint, where, f"{key}[{i}]")


def _expect(fits: bool, expected: str, value: Any, where: str, key: str) -> None:
    if not fits:
        raise PolicyError(f"{where}: {key}: expected {expected}, found {repr(value)[:100]}")
