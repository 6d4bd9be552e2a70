# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The handoff over a live run's own ticks: which chunk took over when is the bag's to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.motion import LEFT_ALONE
from phyai_ros.control.states import Request, State
from phyai_ros.control.told import BETWEEN, HELD
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.replay.as_recorded import request_of
from phyai_ros.replay.events import (
    ChunkCame,
    ClockJumped,
    CommandCame,
    JointsCame,
    RequestCame,
    TickCame,
    Timeline,
)
from phyai_ros.replay.result import Collector
from phyai_ros.replay.self_paced import JOINT_STATE_MAX_AGE
from phyai_ros.replay.session import Session

_HELD = (HELD, BETWEEN, "node deactivated")
"""Reasons of a live standstill that only somebody outside can have asked for."""


class RecordedTicks:
    """Ticks at the times of the bag's /phyai/handoff_state. A new epoch in the bag is a reset here,
    whatever caused it. Which joint state had reached the live handoff when it began to move is not
    in the bag, so a first move may differ from the live one by that."""

    def __init__(
        self,
        session: Session,
        timeline: Timeline,
        chunks: Mapping[tuple[int, int], Chunk],
        collector: Collector,
    ) -> None:
        self._timeline = timeline
        self._chunks = chunks
        self._collector = collector
        self._handoff: Handoff = session.handoff()
        self._joints = JointBuffer(session.robot.joint_names, JOINT_STATE_MAX_AGE)
        self._names = list(session.robot.joint_names)
        self._outlets = [way.outlet() for way in timeline.ways]
        self._epoch: int | None = None
        self._requests: list[Request] = []
        self._waiting: dict[tuple[int, int], Chunk] = {}

    def run(self) -> None:
        for event in self._timeline.events(images=False):
            if isinstance(event, JointsCame):
                self._joints.add(event.sample, event.now, event.topic)
            elif isinstance(event, ClockJumped):
                self._joints.clear()
            elif isinstance(event, RequestCame):
                self._requests.append(event.request)
            elif isinstance(event, ChunkCame):
                key = event.chunk.epoch, event.chunk.request_id
                if key in self._chunks:
                    self._waiting[key] = self._chunks[key]
            elif isinstance(event, CommandCame):
                self._outlets[event.output].heard(event.rows)
            elif isinstance(event, TickCame):
                self._tick(event)

    def _tick(self, event: TickCame) -> None:
        handoff = self._handoff
        live = self._live(event.number)
        if self._epoch is not None and event.epoch != self._epoch:
            handoff.renew(event.stamp)
        self._epoch = event.epoch
        measured = self._joints.positions(event.now)
        if event.state == State.WAITING or LEFT_ALONE in event.reason:
            handoff.let_go()  # as the live one had: it commanded nothing
        elif event.state == State.HOLDING:
            measured = None  # whether something else moved the arm was the live one's to judge
        if event.state == State.HOLDING and event.reason.startswith(_HELD):
            handoff.hold(event.reason)
        chunk = self._waiting.pop((event.epoch, event.request_id), None)
        if chunk is not None:
            chunk = replace(chunk, epoch=handoff.epoch)
            if chunk.request_id not in handoff.requests:
                handoff.requests.sent(replace(request_of(chunk), tick=handoff.tick_number))
            try:
                handoff.accept(chunk)
            except ChunkRefused as refusal:
                self._collector.refuse("chunk", refusal.reason.value, str(refusal), event.now)
        command = handoff.tick(event.stamp, measured)
        for request in self._requests:
            handoff.requests.sent(replace(request, tick=handoff.tick_number))
        self._requests = []
        if not command.repeated:
            self._collector.tick(command, event.stamp, live)

    def _live(self, number: int) -> np.ndarray:
        """What the live handoff sent at this tick: [joints], NaN where the bag does not tell."""
        found = np.full(len(self._names), np.nan)
        for outlet in self._outlets:
            row = outlet.tick(number)
            if row is not None:
                found[[self._names.index(name) for name in outlet.joints]] = row
        return found
