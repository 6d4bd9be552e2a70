# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Handoff methods: how a new chunk joins the one being executed.

Every method sees plans on the absolute tick axis, so a tick always means the same moment in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from phyai_ros.control.chunk import Plan


class Method(Protocol):
    name: str
    overlapped: bool
    """Ask for the next chunk while this one is executed (else: only when the arm stands)."""

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        """The plan to execute from ``tick`` on. held: bool [joints], columns never mixed."""
        ...

    def clear(self) -> None:
        """A new epoch: nothing of the past may enter."""
        ...


class Replace:
    """The new chunk from its true index on."""

    name = "replace"
    overlapped = True

    def splice(self, old: Plan | None, new: Plan, tick: int, held: np.ndarray) -> Plan:
        return new

    def clear(self) -> None:
        pass


class Synchronous(Replace):
    """Stop, look, think, move: the next observation is taken when the last row has been executed
    and the arm stands. The baseline the others are measured against."""

    name = "synchronous"
    overlapped = False


METHODS: dict[str, Callable[[], Method]] = {"replace": Replace, "synchronous": Synchronous}


def make(name: str) -> Method:
    """A handoff method by name. Raises ValueError that lists what there is."""
    if name not in METHODS:
        raise ValueError(f"handoff: expected one of {sorted(METHODS)}, found {name!r}")
    return METHODS[name]()
