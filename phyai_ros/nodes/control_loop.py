# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What happens on the control thread, one tick after the other; the handoff lives here alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.program_time import ProgramTime
from phyai_ros.control.states import Command, Request

SET = 0.1
"""Seconds by which a clock is set, from one tick to the next, that are worth a new epoch."""


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
    handoff's order, None when missing or too old. speed: share of full speed at which the robot
    carries out commands; the handoff lives in the robot's program time, messages in ``now``'s.
    steady: seconds of a clock that nobody sets, NaN where ``now`` need not keep to it: simulated.
    """

    def __init__(
        self,
        handoff: Handoff,
        sink: Sink,
        now: Callable[[], float],
        measured: Callable[[], np.ndarray | None],
        speed: Callable[[], float] = lambda: 1.0,
        steady: Callable[[], float] = lambda: math.nan,
    ) -> None:
        self._handoff = handoff
        self._sink = sink
        self._now = now
        self._measured = measured
        self._speed = speed
        self._steady = steady
        self._offset = math.nan
        self._program = ProgramTime()
        self._open = True
        self.sent = False
        """Whether the newest tick's command has gone out."""
        self._inbox: deque[Callable[[float], None]] = deque()
        self._after: deque[Callable[[], None]] = deque()
        self._published: deque[tuple[int, float]] = deque(maxlen=8)
        self._observed: deque[tuple[int, float]] = deque(maxlen=8)
        self._asked: deque[tuple[int, float]] = deque(maxlen=8)
        self._observed_before = 0.0
        """Seconds by which the newest answer's observation was older than its request."""

    def post(self, action: Callable[[float], None]) -> None:
        """Have ``action(now)`` run on the control thread before its next tick."""
        self._inbox.append(action)

    def after_tick(self, action: Callable[[], None]) -> None:
        """Have ``action()`` run on the control thread after its next tick, which it sees."""
        self._after.append(action)

    def close(self) -> None:
        """Nothing that was or will be posted happens any more. Control thread."""
        self._open = False

    def post_chunk(self, chunk: Chunk, published: float) -> None:
        """published: seconds on the clock of ``now``, when the policy sent the chunk."""

        def accept(now: float) -> None:
            try:
                self._handoff.accept(replace(chunk, stamp=self._place(chunk.stamp, now)))
            except ChunkRefused as refusal:
                self._sink.refused(refusal)
            else:
                self._published.append((chunk.request_id, published))
                self._observed.append((chunk.request_id, chunk.stamp))
                self._observed_before = self._before(chunk)

        self.post(accept)

    def _before(self, chunk: Chunk) -> float:
        before = dict(self._asked).get(chunk.request_id, math.nan) - chunk.stamp
        plausible = abs(before) <= self._handoff.config.max_chunk_age  # else of another clock
        return before if plausible else self._observed_before

    def _place(self, stamp: float, now: float) -> float:
        """Program time of an observation; one that is too old by the clock keeps its age, however
        little the robot has done since."""
        age = self._program.wall(now) - stamp
        if age > self._handoff.config.max_chunk_age:
            return now - age if stamp else 0.0
        return self._program.program(stamp)

    def tick(self) -> None:
        self.sent = False
        wall = self._now()
        self._program.factor = self._speed()
        now = self._program.advance(wall)
        self._check_clock(wall, now)
        while self._inbox:
            action = self._inbox.popleft()
            if self._open:
                action(now)
        command = self._handoff.tick(now, self._measured(), wall)
        if command.repeated:
            return
        while self._after:
            self._after.popleft()()
        if command.positions is not None:
            self._sink.command(command.positions)
            self.sent = True
        request = self._handoff.request(wall, self._program.factor)
        if request is not None:
            self._asked.append((request.request_id, wall))
            self._sink.request(self._on_the_wall(request, now, wall))
        age = self._age(command, wall)
        if age == age and age != command.action_age:
            command = replace(command, action_age=age)
        self._sink.report(TickReport(wall, command, self._deliver(command, wall)))

    def _check_clock(self, wall: float, now: float) -> None:
        before, self._offset = self._offset, wall - self._steady()
        if abs(self._offset - before) > SET:
            self._handoff.clock_jumped(now, self._offset - before)

    def _on_the_wall(self, request: Request, now: float, wall: float) -> Request:
        """Rows of the left-over are a step of the robot's own time apart, and the policy counts
        them by the clock from its observation: they are laid so that they are right for one that
        is as old as the last. While the robot is not slowed down they are right for all."""
        observed = wall - self._observed_before
        ahead = max(observed - wall, 0.0) * (self._program.factor - 1.0)
        seen = self._program.program(observed) + ahead
        return replace(
            request,
            not_before=self._program.wall(request.not_before),
            first_time=observed - (seen - request.first_time),
        )

    def _age(self, command: Command, wall: float) -> float:
        """By the clock, NaN where no action is executed."""
        if command.action_age != command.action_age:
            return math.nan
        return wall - dict(self._observed).get(command.request_id, math.nan)

    def _deliver(self, command: Command, now: float) -> float:
        if not command.first_use:
            return math.nan
        return now - dict(self._published).get(command.request_id, math.nan)
