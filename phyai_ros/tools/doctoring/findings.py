# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What is wrong and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_MOST_NAMES = 6


class Level(Enum):
    """ERROR: it does not work so. WARNING: it works, worse than it could."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """stream: label of what it is about. found: in words, with the numbers. advice: what to change.
    blocks: alone enough for the arm to stand still."""

    level: Level
    stream: str
    found: str
    advice: str
    blocks: bool = False


def error(stream: str, found: str, advice: str, *, blocks: bool = True) -> Finding:
    return Finding(Level.ERROR, stream, found, advice, blocks)


def warning(stream: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARNING, stream, found, advice)


def listed(names: Sequence[str]) -> str:
    """Names for people, a long list cut short."""
    shown, rest = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return shown + (f" and {rest} more" if rest > 0 else "") or "none"
