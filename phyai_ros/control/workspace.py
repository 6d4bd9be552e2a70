# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An optional box that the tool must stay in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

AXES = ("x", "y", "z")


class Workspace:
    """A box in the robot's base frame, metres.

    tool: joint positions [joints] (robot units, the guard's order) -> tool centre point [3].
    lower, upper: corners [3]; infinite where a side is open.
    """

    def __init__(
        self,
        tool: Callable[[np.ndarray], np.ndarray],
        lower: Sequence[float],
        upper: Sequence[float],
    ) -> None:
        self._tool = tool
        self.lower = np.array(lower, dtype=np.float64)
        self.upper = np.array(upper, dtype=np.float64)
        if self.lower.shape != (3,) or self.upper.shape != (3,):
            raise ValueError(
                f"workspace: expected two corners of 3 numbers, found {lower}, {upper}"
            )
        if not (self.lower < self.upper).all():
            raise ValueError(f"workspace: expected lower < upper, found {lower}, {upper}")

    def excess(self, positions: np.ndarray) -> np.ndarray:
        """How far the tool is outside, per axis [3], metres; zeros inside."""
        point = self._tool(positions)
        return np.maximum(np.maximum(self.lower - point, point - self.upper), 0.0)

    def sides(self, positions: np.ndarray) -> list[str]:
        """Axes along which the tool is outside."""
        return [AXES[i] for i in np.flatnonzero(self.excess(positions) > 0.0)]
