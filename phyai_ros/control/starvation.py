# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A plan that ran out with none behind it, and how long that may last."""

from __future__ import annotations


class Starvation:
    """since: tick from which on no row is left, None while there is one or none was wanted.

    It is the policy that is late, so it is given seconds of the clock that its answers take: a
    robot that runs at a tenth of its speed does not wait ten times as long for one that has died.
    patience: seconds.
    """

    def __init__(self, patience: float) -> None:
        self.since: int | None = None
        self._patience = patience
        self._began = 0.0

    def begin(self, tick: int, wall: float) -> None:
        self.since, self._began = tick, wall

    def end(self) -> None:
        self.since = None

    def fault(self, wall: float) -> str:
        """Why it is a fault by now, for people; empty while it is none."""
        seconds = 0.0 if self.since is None else wall - self._began
        return f"no chunk for {seconds:.1f} s" if seconds > self._patience else ""
