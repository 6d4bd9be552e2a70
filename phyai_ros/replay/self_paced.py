# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag whose sensors drive the whole graph: the handoff asks, the policy answers, ticks follow.

Time is the bag's alone. An inference takes ``delay`` seconds of it however long the machine needs,
so the same bag and seed give the same ticks, requests, chunks and commands under any load.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.frame import NotReady, Reason
from phyai_ros.control.states import Request
from phyai_ros.nodes.control_loop import ControlLoop, TickReport
from phyai_ros.nodes.history import History
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.replay.events import (
    ClockJumped,
    Event,
    ImageCame,
    InstructionCame,
    JointsCame,
    Refused,
    Timeline,
)
from phyai_ros.replay.feeder import Feeder
from phyai_ros.replay.result import Collector
from phyai_ros.replay.session import Session

JOINT_STATE_MAX_AGE = 0.5
"""Seconds; handoff_node's ``joint_state_max_age``."""


class Seat:
    """The policy's place: a depth-1 slot of requests, newest wins, as InferenceLoop's."""

    def __init__(self, session: Session, feeder: Feeder, collector: Collector) -> None:
        self.instruction = session.choices.instruction
        self.ready: deque[tuple[float, Chunk]] = deque()
        """Chunks on their way, each with the time at which it arrives."""
        self._session = session
        self._feeder = feeder
        self._collector = collector
        self._history = History(session.binding, feeder.source, session.binding.spec.history)
        self._request: Request | None = None
        self._since = 0.0
        self._busy_until = -np.inf
        self._refusal: NotReady | None = None

    def submit(self, request: Request, now: float) -> None:
        if self._request is not None:
            self.give_up(now, "superseded")
        self._request, self._since, self._refusal = request, now, None

    def jump(self, seconds: float) -> None:
        """The clock jumped; what the engine is at takes as long as before."""
        self._since += seconds
        self._busy_until += seconds
        self.ready = deque((at + seconds, chunk) for at, chunk in self.ready)

    def remember(self) -> None:
        """Called once a tick, for policies that look back."""
        if self._session.binding.spec.history:
            self._history.record()

    def poll(self, now: float) -> None:
        """Answer if there is a request and a frame for it."""
        request = self._request
        if request is None or now < self._busy_until:
            return
        try:
            frame = self._feeder.aligner.assemble(now, request.not_before)
        except NotReady as refusal:
            if self._refusal is None or refusal.reason is not Reason.NOT_YET:
                self._refusal = refusal
            if now - self._since >= self._session.choices.observation_timeout:
                self.give_up(now, "")
            return
        self._request = None
        waited = self._refusal
        if waited is not None and waited.reason is not Reason.NOT_YET:
            self._collector.delay(
                request.request_id, now, waited.reason.value, waited.stream, str(waited)
            )
        try:
            answered = self._session.answering.answer(
                frame, request, self.instruction, self._history.before(frame.stamp)
            )
        except ValueError as error:
            self._collector.leave(request.request_id, now, type(error).__name__, "", str(error))
            return
        self._collector.answer(answered)
        self._busy_until = now + self._session.choices.delay
        self.ready.append((self._busy_until, answered.chunk))

    def give_up(self, now: float, why: str) -> None:
        """No chunk for the request that waits, if one does; the aligner's reason says more."""
        request, refusal = self._request, self._refusal
        self._request = None
        if request is None:
            return
        reason = refusal.reason.value if refusal else "not_tried"
        text = f"{refusal}" if refusal else "nothing was tried for it"
        self._collector.leave(
            request.request_id,
            now,
            reason,
            refusal.stream if refusal else "",
            f"{text} ({why})" if why else text,
        )


class _Sink:
    """Takes what a tick gives."""

    def __init__(self, seat: Seat, feeder: Feeder, collector: Collector) -> None:
        self._seat, self._feeder, self._collector = seat, feeder, collector

    def command(self, positions: np.ndarray) -> None:
        pass  # it is in the report

    def request(self, request: Request) -> None:
        self._seat.submit(request, self._feeder.now)

    def report(self, report: TickReport) -> None:
        self._collector.tick(report.command, report.now)

    def refused(self, refusal: ChunkRefused) -> None:
        self._collector.refuse("chunk", refusal.reason.value, str(refusal), self._feeder.now)


def run(session: Session, timeline: Timeline, collector: Collector) -> None:
    """Fill the collector. Raises BagError."""
    feeder = Feeder(session, collector)
    seat = Seat(session, feeder, collector)
    joints = JointBuffer(session.robot.joint_names, JOINT_STATE_MAX_AGE)
    handoff = session.handoff()
    loop = ControlLoop(
        handoff,
        _Sink(seat, feeder, collector),
        lambda: feeder.now,
        lambda: joints.positions(feeder.now),
    )
    period = session.robot.period
    if seat.instruction:
        handoff.set_instruction(seat.instruction, 0.0)

    def tick(now: float) -> None:
        feeder.now = now
        seat.poll(now)
        while seat.ready and seat.ready[0][0] <= now:
            arrived, chunk = seat.ready.popleft()
            loop.post_chunk(chunk, arrived)
        loop.tick()
        seat.remember()
        seat.poll(now)

    origin: float | None = None
    count = 0
    for event in timeline.events():
        if isinstance(event, ClockJumped):
            feeder.clear()
            joints.clear()
            seat.jump(event.seconds)
            text = f"the clock jumped by {event.seconds:.3f} s: every buffered sample was dropped"
            collector.refuse(event.topic, "clock_jumped", text, event.now)
            origin = None
        if origin is None and event.now > 0.0:
            origin, count = event.now, 0
        while origin is not None and origin + count * period <= event.now:
            tick(origin + count * period)
            count += 1
        feeder.now = event.now
        _deliver(event, feeder, joints, seat, loop, handoff, collector)
        seat.poll(event.now)
    seat.give_up(feeder.now, "the bag ended")


def _deliver(
    event: Event,
    feeder: Feeder,
    joints: JointBuffer,
    seat: Seat,
    loop: ControlLoop,
    handoff: object,
    collector: Collector,
) -> None:
    if isinstance(event, ImageCame):
        feeder.image(event)
    elif isinstance(event, JointsCame):
        feeder.joints(event)
        joints.add(event.sample, event.now, event.topic)
    elif isinstance(event, InstructionCame):
        seat.instruction = event.text
        loop.post(lambda now: handoff.set_instruction(event.text, now))  # type: ignore[attr-defined]
    elif isinstance(event, Refused):
        collector.refuse(event.topic, event.kind, event.text, event.now)
