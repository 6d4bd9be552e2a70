# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What happens on the control thread, one tick after the other; the handoff lives here alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import Command, Request


@dataclass(frozen=True)
class TickReport:
    """A tick for /phyai/handoff_state. deliver: seconds from the chunk's publication to this tick,
    NaN unless this tick is its first."""

    now: float
    command: Command
    deliver: float


class Sink(Protocol):
    """Where a tick's results go; every call comes from the control thread."""

    def command(self, positions: np.ndarray) -> None: ...

    def request(self, request: Request) -> None: ...

    def report(self, report: TickReport) -> None: ...

    def refused(self, refusal: ChunkRefused) -> None: ...


class ControlLoop:
    """Runs one Handoff. Other threads only ``post`` what shall happen before the next tick, so the
    control thread never waits for a lock that a slower thread holds.

    now: seconds, the clock that stamps observations. measured: newest joint positions in the
    handoff's order, None when missing or too old.
    """

    def __init__(
        self,
        handoff: Handoff,
        sink: Sink,
        now: Callable[[], float],
        measured: Callable[[], np.ndarray | None],
    ) -> None:
        self._handoff = handoff
        self._sink = sink
        self._now = now
        self._measured = measured
        self._inbox: deque[Callable[[float], None]] = deque()
        self._published: deque[tuple[int, float]] = deque(maxlen=8)

    def post(self, action: Callable[[float], None]) -> None:
        """Have ``action(now)`` run on the control thread before its next tick."""
        self._inbox.append(action)

    def post_chunk(self, chunk: Chunk, published: float) -> None:
        """published: seconds on the clock of ``now``, when the policy sent the chunk."""

        def accept(now: float) -> None:
            try:
                self._handoff.accept(chunk)
            except ChunkRefused as refusal:
                self._sink.refused(refusal)
            else:
                self._published.append((chunk.request_id, published))

        self.post(accept)

    def tick(self) -> None:
        now = self._now()
        while self._inbox:
            self._inbox.popleft()(now)
        command = self._handoff.tick(now, self._measured())
        if command.repeated:
            return
        if command.positions is not None:
            self._sink.command(command.positions)
        request = self._handoff.request(now)
        if request is not None:
            self._sink.request(request)
        self._sink.report(TickReport(now, command, self._deliver(command, now)))

    def _deliver(self, command: Command, now: float) -> float:
        if not command.first_use:
            return math.nan
        return now - dict(self._published).get(command.request_id, math.nan)
