# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Values of a command line, for argparse's ``type``: numbers with bounds, words that are there."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path


def given(text: str) -> str:
    """An empty word is a shell's variable that is not set, not a default: a check that was asked
    for would be left out without a word."""
    if not text:
        raise argparse.ArgumentTypeError("expected a value, found an empty word")
    return text


def given_path(text: str) -> Path:
    """As ``given``: pathlib reads an empty word as the current directory."""
    return Path(given(text))


def above_zero(text: str) -> float:
    value = _number(float, text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return value


def not_negative(text: str) -> float:
    value = _number(float, text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a number from 0, found {text}")
    return value


def at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        value = int(_number(int, text))
        if value < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, found {text}")
        return value

    return whole


def _number(kind: Callable[[str], float], text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"expected {what}, found {text!r}") from None
