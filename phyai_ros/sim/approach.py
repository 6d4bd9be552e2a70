# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How the scripted experts near a goal: a memoryless law in joint space."""

from __future__ import annotations

import numpy as np


def shrink(error: np.ndarray, cruise: np.ndarray, slow_down: float, dt: float) -> np.ndarray:
    """Joint error [..., n] -> what is left of it after ``dt`` seconds. All joints move together in
    a straight line. cruise: speed of each joint far from the goal. slow_down: time constant near
    it, s.

    With m the seconds that the error takes at cruise speed, dm/dt = -min(1, m / slow_down),
    solved exactly; so two half steps give the same as one whole step.
    """
    seconds = np.max(np.abs(error) / cruise, axis=-1, keepdims=True)
    steady = np.clip(seconds - slow_down, 0.0, dt)
    left = (seconds - steady) * np.exp(-(dt - steady) / slow_down)
    return error * np.divide(left, seconds, out=np.zeros_like(seconds), where=seconds > 1e-12)
