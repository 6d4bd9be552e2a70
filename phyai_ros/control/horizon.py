# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How much of a chunk is executed before the next takes over."""

from __future__ import annotations

from phyai_ros.control import realtime
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.delay import DelayEstimator
from phyai_ros.control.intake import Intake


class ExecutionHorizon:
    """As set, or the fewest ticks that the delays measured so far sustain. delay: from observation
    to first use."""

    def __init__(self, config: HandoffConfig, intake: Intake, delay: DelayEstimator) -> None:
        self._config, self._intake, self._delay = config, intake, delay
        self._chosen: tuple[tuple[int, ...], int] = ((), 1)

    @property
    def ticks(self) -> int:
        config, intake = self._config, self._intake
        if config.execution_horizon is not None:
            return config.execution_horizon * intake.stride
        delays = self._delay.samples
        if not delays:
            return max(1, intake.rows // 2)
        if delays != self._chosen[0]:
            bound, margin = config.starvation_bound, config.margin
            chosen = realtime.auto_horizon(delays, intake.rows, bound=bound, margin=margin)
            self._chosen = (delays, chosen.execution_horizon)
        return self._chosen[1]

    def problem(self) -> str:
        """Why the measured delay cannot be hidden behind execution; empty when it can."""
        delay, rows = self._delay.maximum, self._intake.rows
        if delay is None or not rows:
            return ""
        return realtime.problem(delay, rows, self.ticks, self._config.period)
