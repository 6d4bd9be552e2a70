# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An output that commands nothing: it says what would have been commanded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from phyai_ros.control.handoff import Handoff
from phyai_ros.robots.parts import Output

LOG_PERIOD = 1.0
"""Seconds between two log lines."""


class DryRun:
    """Has no publisher, so nothing it is given can reach a robot.

    Since the arm does not move, the policy goes on seeing where it stands: the plans are those of a
    first chunk, over and over, each started from the command before.
    """

    def __init__(self, node: Any, output: Output, joints: Sequence[str], handoff: Handoff) -> None:
        self.topic = node.resolve_topic_name(output.topic)
        self._joints = tuple(joints)
        self._order = [handoff.names.index(name) for name in joints]
        self._handoff = handoff
        self._logger = node.get_logger()
        self._next_log = 0.0
        self._reach = np.zeros(len(self._joints))
        self._start: np.ndarray | None = None
        self.commands = 0

    def publish(self, positions: np.ndarray) -> None:
        self.commands += 1
        row = positions[self._order]
        if self._start is None:
            self._start = row
        self._reach = np.maximum(self._reach, np.abs(row - self._start))
        now = time.monotonic()
        if now >= self._next_log:
            self._next_log = now + LOG_PERIOD
            self._logger.info(self._line(row))

    def _line(self, row: np.ndarray) -> str:
        words = [
            f"{name} {value:.3f} (moved by up to {reach:.3f})"
            for name, value, reach in zip(self._joints, row, self._reach, strict=True)
        ]
        limited = self._handoff.guard.limited_ticks
        return (
            f"dry run, nothing is sent to {self.topic}: command {self.commands}, "
            f"{', '.join(words)}; {limited} limited by the guard"
        )

    def let_go(self, measured: np.ndarray | None) -> bool:
        self._start = None
        return True

    def trouble(self) -> str | None:
        return "dry run: commands are logged and not sent"

    def destroy(self) -> None:
        pass
