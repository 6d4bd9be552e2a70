# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What is wrong and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


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


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names for people, a long list cut short."""
    shown = ", ".join(list(names)[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "") or "none"
