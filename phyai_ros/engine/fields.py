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
LONGEST_SIDE = 8192
"""Pixels of a side of an image that a policy resizes to."""
LARGEST_OF = {
    "layer": 512, "depth": 512, "steps": 10_000, "horizon": 10_000, "chunk_size": 10_000,
    "image_s": LONGEST_SIDE, "resize": LONGEST_SIDE, "crop_shape": LONGEST_SIDE,
}  # fmt: skip
"""Of fields with such a word in their name: things that are built or run one by one, and sizes and
shapes of images."""
LEAST = "least"
"""Of a field's metadata."""


def whole(value: Any, where: str, most: int = LARGEST) -> int:
    """A whole number from 1. Raises PolicyError naming where, which has file and key."""
    _whole(value, 1, most, where)
    return int(value)


def _whole(value: Any, least: float, most: int, where: str) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    if not fits:
        raise PolicyError(
            f"{where}: expected a whole number from {least} to {most}, found {repr(value)[:100]}"
        )


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
    booleans, text, tuples and dataclasses of these, or None where that is allowed. ``LEAST`` in a
    field's metadata is its least value; without it whole numbers are at least 1, others above 0."""
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        key = f"{path}.{field.name}" if path else field.name
        bound = field.metadata.get(LEAST)
        _check(getattr(config, field.name), hints[field.name], where, key, bound)


def _check(value: Any, hint: Any, where: str, key: str, bound: float | None) -> None:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        choices = typing.get_args(hint)
        if value is None and type(None) in choices:
            return
        (hint,) = [c for c in choices if c is not type(None)]
        origin = typing.get_origin(hint)
    if origin is tuple:
        _check_tuple(value, typing.get_args(hint), where, key, bound)
    elif is_dataclass(hint):
        check_fields(value, where, key)
    elif hint is bool:
        _expect(isinstance(value, bool), "true or false", value, where, key)
    elif hint is int:
        most = next((n for word, n in LARGEST_OF.items() if word in key.lower()), LARGEST)
        _whole(value, 1 if bound is None else bound, most, f"{where}: {key}")
    elif hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _expect(number and math.isfinite(value), "a finite number", value, where, key)
        if bound is None:
            _expect(value > 0, "a number above 0", value, where, key)
        else:
            _expect(value >= bound, f"a number from {bound}", value, where, key)
    elif hint is str:
        _expect(isinstance(value, str), "text", value, where, key)


def _check_tuple(
    value: Any, hints: tuple[Any, ...], where: str, key: str, bound: float | None
) -> None:
    _expect(isinstance(value, (tuple, list)), "a list", value, where, key)
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = (hints[0],) * len(value)
    _expect(len(value) == len(hints), f"{len(hints)} entries", value, where, key)
    for i, (item, hint) in enumerate(zip(value, hints, strict=True)):
        _check(item, hint, where, f"{key}[{i}]", bound)


def _expect(fits: bool, expected: str, value: Any, where: str, key: str) -> None:
    if not fits:
        raise PolicyError(f"{where}: {key}: expected {expected}, found {repr(value)[:100]}")
