# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What can be set of a handoff."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class HandoffConfig:
    """All that can be set; times in seconds.

    period: control tick. execution_horizon: rows executed of a chunk before the next takes over,
    None for auto: the fewest that inference sustains (``realtime.auto_horizon`` with
    starvation_bound). horizon: rows a chunk must have, None for any. lead: ticks before a handoff
    at which its request goes out, None: as measured. margin: ticks by which a request goes out
    earlier than the measured delay asks for. window, warm_up: of the delay estimate, in chunks.
    request_timeout: an unanswered request is repeated after this, or three measured delays if that
    is longer. fault_after: starved this long by the clock, the handoff faults. fault_after_broken:
    so many unusable chunks in a row fault. ramp_speed: share of the velocity limit for the first
    move.
    tracking_tolerance: a joint (not a gripper) of a standing arm that is measured farther than this
    from its command was moved by something else; one for all joints, or one for each.
    clock_jump: a forward step of the clock that begins a new epoch. max_chunk_age: no older
    observation is acted on, even by a standing arm. plays_on: a robot that
    goes on with the plan that it was sent when ticks are missed (joint_trajectory); others stand at
    the last command then.
    discrete: joints never interpolated or blended. first_epoch: lets a restarted handoff tell its
    own chunks from its predecessor's.
    """

    period: float
    execution_horizon: int | None
    horizon: int | None = None
    lead: int | None = None
    margin: int = 1
    starvation_bound: float = 0.01
    window: int = 10
    warm_up: int = 1
    request_timeout: float = 2.0
    fault_after: float = 60.0
    fault_after_broken: int = 10
    ramp_speed: float = 0.5
    tracking_tolerance: float | tuple[float, ...] = 0.1
    clock_jump: float = 1.0
    max_chunk_age: float = 5.0
    plays_on: bool = False
    discrete: tuple[str, ...] = ()
    first_epoch: int = 1

    def __post_init__(self) -> None:
        for key in ("period", "request_timeout", "fault_after", "max_chunk_age", "ramp_speed"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{key}: expected a finite number above 0, found {value!r}")
        s, lead = self.execution_horizon, self.lead
        if (s is not None and s < 1) or self.margin < 0 or (lead is not None and lead < 0):
            raise ValueError(
                f"expected execution_horizon >= 1, margin >= 0 and lead >= 0, "
                f"found {s}, {self.margin} and {lead}"
            )
        if not 0.0 < self.starvation_bound < 1.0:
            raise ValueError(
                f"starvation_bound: expected a probability, found {self.starvation_bound!r}"
            )
        if s is not None and self.horizon is not None and s > self.horizon:
            raise ValueError(
                f"execution_horizon: expected at most the chunk's horizon {self.horizon}, found {s}"
            )
