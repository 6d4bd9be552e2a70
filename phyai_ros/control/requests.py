# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""When to ask for the next chunk, and which question an answer belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused, Drop
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.delay import DelayEstimator
from phyai_ros.control.states import Request, State

if TYPE_CHECKING:
    from phyai_ros.control.handoff import Handoff

REMEMBERED = 64
LATER = 1e-6
"""Seconds; the least that tells two stamps apart in a double that counts from 1970."""

STAMPS_AGREE = 1e-3
"""Seconds by which a time may differ after its way through messages and a robot's slower time."""


class Requests:
    """Requests sent, the delay they take, and when the next is due.

    Two delays, both in ticks: ``lead`` from the request to the first tick that uses its answer
    (when to ask), ``delay`` from the observation to that tick (what the answer loses).
    """

    def __init__(self, config: HandoffConfig) -> None:
        self._config = config
        self.lead = DelayEstimator(config.window, config.warm_up)
        self.delay = DelayEstimator(config.window, config.warm_up)
        self.timeouts = 0
        self._newest = 0, 0  # lead and delay, warm-up or not
        self._next_id = 1
        self._sent: dict[int, Request] = {}
        self._answered: set[int] = set()
        self._open: tuple[int, float] | None = None

    def forget(self) -> None:
        """No request is waited for any more."""
        self._open = None

    def sent(self, request: Request) -> None:
        """Note a request as sent; ``request.tick`` is that of its sending. A replay gives those of
        its bag."""
        self._sent[request.request_id] = request
        while len(self._sent) > REMEMBERED:
            oldest = next(iter(self._sent))
            del self._sent[oldest]
            self._answered.discard(oldest)

    def __contains__(self, request_id: int) -> bool:
        """Whether it is one of the last sent."""
        return request_id in self._sent

    def answered(self, chunk: Chunk) -> None:
        """Note an answer. Raises ChunkRefused when nothing asked for it, it came before, or it was
        made of an observation older than asked for: of before a reset, or before the arm was moved.
        """
        if chunk.request_id not in self._sent:
            raise ChunkRefused(
                Drop.UNKNOWN_REQUEST,
                f"request {chunk.request_id} is not one of the last {len(self._sent)} sent",
            )
        if chunk.request_id in self._answered:
            raise ChunkRefused(
                Drop.DUPLICATE,
                f"request {chunk.request_id} was answered before; do two policies answer?",
            )
        self._answered.add(chunk.request_id)
        if self._open is not None and self._open[0] <= chunk.request_id:
            self._open = None
        asked = self._sent[chunk.request_id].not_before
        if 0.0 < chunk.stamp < asked - STAMPS_AGREE:
            raise ChunkRefused(
                Drop.TOO_OLD,
                f"observed at {chunk.stamp:.3f}, request {chunk.request_id} asked for what is seen "
                f"from {asked:.3f} on",
            )

    def use(self, chunk: Chunk, tick: int, elapsed: int) -> Request:
        """Measure an answer at the tick that would use it first."""
        sent = self._sent[chunk.request_id]
        self.lead.add(tick - sent.tick)
        self.delay.add(elapsed)
        self._newest = max(tick - sent.tick, 0), max(elapsed, 0)
        return sent

    @property
    def expected_delay(self) -> int:
        """Ticks from observation to first use to plan with; 0 while nothing is known."""
        known = self.delay.maximum
        return 0 if known is None else known

    def due(self, handoff: Handoff, now: float, pace: float) -> Request | None:
        """now: seconds of the clock that answers take. pace: the handoff's seconds in one of it."""
        tick = handoff.tick_number
        if self._open is not None:
            slowest = 3.0 * (self.lead.maximum or 0) * self._config.period / pace
            if 0.0 <= now - self._open[1] <= max(self._config.request_timeout, slowest):
                return None
            self.timeouts += 1
            handoff.counters.request_timeouts += 1
        elif not self._wanted(handoff, tick):
            return None
        request = self._build(handoff, tick)
        self._next_id += 1
        self.sent(request)
        self._open = (request.request_id, now)
        return request

    def _wanted(self, handoff: Handoff, tick: int) -> bool:
        buffer = handoff.buffer
        if buffer.plan is None:
            return True
        if not buffer.method.overlapped:
            resting = handoff.state in (State.HOLDING, State.WAITING)
            return resting and handoff.guard.standing
        lead = self.lead.maximum if self._config.lead is None else self._config.lead
        if lead is None or buffer.method.eager:
            return True  # nothing measured yet: ask at once rather than guess
        remaining = buffer.switch_tick(handoff.execution_ticks) - tick
        return remaining <= lead + self._config.margin

    def _build(self, handoff: Handoff, tick: int) -> Request:
        plan = handoff.buffer.plan
        delay, lead = self.expected_delay, self.lead.maximum or 0
        if handoff.buffer.method.conditioned and self.lead.maximum is None:
            # A chunk made for fewer rows than it takes is lost, one for more only less fresh: the
            # first answer counts for that, though not for the estimate.
            lead, delay = self._newest
        start = handoff.epoch_start
        leftover = np.zeros((0, len(handoff.names)))
        first, committed = tick + 1, 0
        if plan is not None:
            start = max(start, plan.chunk.stamp + LATER)
            if not handoff.buffer.method.overlapped:
                start = max(start, handoff.axis.time(tick))
            elif handoff.state in (State.EXECUTING, State.RAMPING):
                # The observation that answers may be older than this request by delay - lead.
                sent = handoff.progress.commands(tick - max(delay - lead, 0) - self._config.margin)
                first = tick + 1 - len(sent)
                leftover = np.vstack([*sent, plan.between(tick + 1, plan.end)])
                # lead counts waits for a sensor too; those are not the delay of an inference.
                ahead = min(lead, delay + self._config.margin)
                committed = min(len(leftover), max(tick + ahead - first, len(sent)))
        return Request(
            request_id=self._next_id,
            epoch=handoff.epoch,
            tick=tick,
            not_before=start,
            expected_delay=self.expected_delay,
            first_time=handoff.axis.time(first),
            joint_names=handoff.names,
            step=self._config.period,
            leftover=leftover,
            committed=committed,
            instruction=handoff.instruction,
        )
