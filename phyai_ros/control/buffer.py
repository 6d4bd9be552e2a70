# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The plan being executed, and how a new one joins it."""

from __future__ import annotations

import numpy as np

from phyai_ros.control.chunk import Plan
from phyai_ros.control.methods import Method


class ChunkBuffer:
    """The plan being executed, and how a new one is joined to it."""

    def __init__(self, names: tuple[str, ...], method: Method, discrete: tuple[str, ...]) -> None:
        unknown = [n for n in discrete if n not in names]
        if unknown:
            raise ValueError(f"discrete joints {unknown}: expected some of {list(names)}")
        self.names = names
        self.method = method
        self.held = np.array([n in discrete for n in names])
        self.plan: Plan | None = None
        self.first_use = 0

    def clear(self) -> None:
        self.plan = None
        self.method.clear()

    def splice(self, new: Plan, tick: int) -> None:
        self.plan = self.method.splice(self.plan, new, tick, self.held)
        self.first_use = tick

    def row(self, tick: int) -> np.ndarray | None:
        return None if self.plan is None else self.plan.row(tick)

    def switch_tick(self, execution_ticks: int) -> int:
        """The tick at which the next chunk should take over."""
        if self.plan is None:
            raise RuntimeError("no plan")
        return min(self.first_use + execution_ticks, self.plan.end)
