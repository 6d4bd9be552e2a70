# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the handoff reports: states, counters, commands and requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np


class State(IntEnum):
    """As in msg/HandoffState.msg."""

    WAITING = 0
    RAMPING = 1
    EXECUTING = 2
    STARVED = 3
    HOLDING = 4
    FAULT = 5


@dataclass
class Counters:
    """Everything that happened, since the start. dropped: by reason; its sum is dropped_chunks."""

    ticks: int = 0
    missed_ticks: int = 0
    starved_ticks: int = 0
    accepted_chunks: int = 0
    late_chunks: int = 0
    request_timeouts: int = 0
    clock_jumps: int = 0
    rebases: int = 0
    bad_measurements: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def dropped_chunks(self) -> int:
        return sum(self.dropped.values())


@dataclass(frozen=True)
class Command:
    """The outcome of one tick.

    positions: float64 [joints] to publish, None: publish nothing. index: row of the chunk at this
    tick. remaining: ticks left in the plan after this one. action_age: seconds from the
    observation behind this action to now, NaN without one. first_use: this is the first tick that
    uses chunk ``request_id``. repeated: the same tick was asked for twice; nothing advanced.
    """

    tick: int
    state: State
    reason: str
    positions: np.ndarray | None = None
    request_id: int = 0
    epoch: int = 0
    index: int = 0
    remaining: int = 0
    action_age: float = float("nan")
    limited: bool = False
    first_use: bool = False
    jitter: float = 0.0
    missed: int = 0
    repeated: bool = False


@dataclass(frozen=True)
class Request:
    """Ask for the next chunk; the fields of msg/InferenceRequest.msg.

    not_before: seconds, the oldest observation that may answer. first_time: seconds, of row 0 of
    leftover; step: seconds between its rows (one tick). leftover: float64 [n, joints], commands
    sent and still planned, from first_time on; empty when the arm stands. committed: leading rows
    that are executed whatever comes.
    """

    request_id: int
    epoch: int
    tick: int
    not_before: float
    expected_delay: int
    first_time: float
    joint_names: tuple[str, ...]
    step: float
    leftover: np.ndarray
    committed: int
    instruction: str = ""
