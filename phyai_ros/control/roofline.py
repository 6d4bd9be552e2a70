# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Control-time Roofline: does the policy or the robot set the pace?

A chunk is executed for s rows of dt seconds each; meanwhile (or before) the next one is inferred.
Stop and think costs the sum of both, overlapping the greater of the two. Where inference takes
longer than the executed rows last, the policy sets the pace (inference-bound); else the robot does
(environment-bound), and what is left is slack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """inference, inference_p99: seconds from observation to chunk. transport: seconds from the
    sensor to the policy and from the policy to the controller, together. horizon: rows of a chunk;
    execution_horizon: rows executed of it. control_rate: Hz. environment: seconds that one action
    takes where that is longer than the control period (a slow simulator), else 0."""

    name: str
    inference: float
    horizon: int
    execution_horizon: int
    control_rate: float
    inference_p99: float | None = None
    transport: float = 0.0
    environment: float = 0.0

    def __post_init__(self) -> None:
        for key in ("inference", "transport", "environment"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{self.name}: {key}: expected seconds >= 0, found {value!r}")
        if not (math.isfinite(self.control_rate) and self.control_rate > 0):
            raise ValueError(
                f"{self.name}: control_rate: expected Hz > 0, found {self.control_rate!r}"
            )
        if not 1 <= self.execution_horizon <= self.horizon:
            raise ValueError(
                f"{self.name}: execution_horizon: expected 1 to {self.horizon}, "
                f"found {self.execution_horizon}"
            )

    @property
    def action(self) -> float:
        """Seconds that one executed row takes."""
        return max(1.0 / self.control_rate, self.environment)

    def scaled(
        self, inference: float = 1.0, execution_horizon: int | None = None, rate: float = 1.0
    ) -> Workload:
        """What if: a factor on inference, another execution horizon, a factor on the rate."""
        p99 = None if self.inference_p99 is None else self.inference_p99 * inference
        s = self.execution_horizon if execution_horizon is None else execution_horizon
        return replace(
            self,
            inference=self.inference * inference,
            inference_p99=p99,
            execution_horizon=s,
            horizon=max(self.horizon, s),
            control_rate=self.control_rate * rate,
        )


@dataclass(frozen=True)
class Roofline:
    """Times of one handoff cycle, seconds.

    execution: s rows. think: inference and transport. sequential: one after the other. overlapped:
    the greater. bound: ``inference`` or ``environment``. boundary: rows from which on the workload
    is environment-bound. slack: execution minus think, to the next handoff; negative when the arm
    waits. slack_p99: the same with p99 inference, NaN if not measured. rate_sequential,
    rate_overlapped: actions a second that are reached. delay: ticks of thinking. real_time:
    d <= H - s, so that overlapping leaves no tick without an action.
    """

    workload: Workload
    execution: float
    think: float
    sequential: float
    overlapped: float
    bound: str
    boundary: int
    slack: float
    slack_p99: float
    rate_sequential: float
    rate_overlapped: float
    delay: int
    real_time: bool


def evaluate(workload: Workload) -> Roofline:
    """The cycle of one workload."""
    s, action = workload.execution_horizon, workload.action
    execution = s * action
    think = workload.inference + workload.transport
    overlapped = max(execution, think)
    p99 = workload.inference_p99
    delay = _whole(think / action)
    return Roofline(
        workload=workload,
        execution=execution,
        think=think,
        sequential=execution + think,
        overlapped=overlapped,
        bound="inference" if think > execution else "environment",
        boundary=max(1, delay),
        slack=execution - think,
        slack_p99=math.nan if p99 is None else execution - p99 - workload.transport,
        rate_sequential=s / (execution + think),
        rate_overlapped=s / overlapped,
        delay=delay,
        real_time=delay <= workload.horizon - s and delay <= s,
    )


def _whole(ticks: float) -> int:
    """Ceiling that a rounding error of the division does not push up by one."""
    return math.ceil(ticks - 1e-9)


def curve(workload: Workload) -> list[Roofline]:
    """The same workload at every execution horizon from 1 to its chunk's length, for a plot."""
    return [
        evaluate(replace(workload, execution_horizon=s)) for s in range(1, workload.horizon + 1)
    ]
