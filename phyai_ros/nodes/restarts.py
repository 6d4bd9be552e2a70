# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Which processes come back after they ended, when, and how often. ``phyai-ros up`` and the launch
file follow it. No rclpy here."""

from __future__ import annotations

import time
from collections.abc import Callable

DELAYS = (0.1, 1.0, 3.0)
"""Seconds until the first, second, third restart within WINDOW; a fourth does not come."""
WINDOW = 60.0
"""Seconds after which a restart is forgotten: crashes far apart are no crash loop, however long a
run lasts."""
NEVER = ("sim_node",)
"""The simulator is the robot: its state is gone with it."""
OPTIONAL = ("overlay_node",)
"""Nothing is played by it: the run goes on when it stays away."""


class Restarts:
    """clock: seconds, steady."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: dict[str, list[float]] = {}

    def after(self, executable: str, status: int) -> float | None:
        """Seconds after which a process that ended is started again, None: not at all.

        A negative status is a signal: killed, out of memory, crashed in native code. A process that
        ended by itself said why, and would say it again.
        """
        if executable in NEVER or status >= 0:
            return None
        now = self._clock()
        recent = [at for at in self._recent.get(executable, []) if now - at < WINDOW]
        if len(recent) >= len(DELAYS):
            return None
        self._recent[executable] = [*recent, now]
        return DELAYS[len(recent)]
