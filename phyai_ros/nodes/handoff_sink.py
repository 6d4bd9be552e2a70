# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where the control thread's results go: commands, requests, the handoff's state, its numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from phyai_ros.control.chunk import USUAL, ChunkRefused
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import Request, State
from phyai_ros.msg import HandoffState, InferenceRequest
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.control_loop import TickReport
from phyai_ros.nodes.diagnostics import Window
from phyai_ros.nodes.outputs import Output


class HandoffSink:
    """Publishes from the control thread; only attributes are read from elsewhere."""

    def __init__(self, node: Any, handoff: Handoff, output: Output) -> None:
        self.jitter, self.age, self.deliver = Window(), Window(), Window()
        self.state, self.reason = State.WAITING, "not started"
        self.missed = 0
        self.commanded = False
        """Whether a command has been sent."""
        self.note = ""
        """What the executor's thread knows about a standstill; added to the reason."""
        self.pace: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
        """(jitter of this tick in seconds, deadlines missed so far), from the pacer."""
        self._node = node
        self._handoff = handoff
        self._output = output
        self.changes: deque[tuple[State, str]] = deque(maxlen=64)
        """States and reasons since whoever takes them out looked last: one may be over by then."""
        self.refusals: deque[tuple[str, str]] = deque(maxlen=64)
        """What was refused, and why: in the same way."""
        self._refused, self._unusable = 0, 0
        self._requests = node.create_publisher(InferenceRequest, "phyai/request", qos.request())
        self._states = node.create_publisher(
            HandoffState, "phyai/handoff_state", qos.handoff_state()
        )

    def command(self, positions: np.ndarray) -> None:
        self.commanded = True  # before it is heard
        self._output.publish(positions)

    def request(self, request: Request) -> None:
        self._requests.publish(convert.fill_request(InferenceRequest(), request))

    def refused(self, refusal: ChunkRefused) -> None:
        pass  # ``report`` finds it, with those that the handoff drops at their tick

    def report(self, report: TickReport) -> None:
        command, counters = report.command, self._handoff.counters
        jitter, missed = self.pace()
        # More than half a period late is a tick of the next deadline, whoever counts it.
        self.missed = max(missed, counters.missed_ticks)
        self.jitter.add(abs(jitter))
        if command.action_age == command.action_age:
            self.age.add(command.action_age)
        if report.deliver == report.deliver:
            self.deliver.add(report.deliver)
        reason = command.reason + (f"; {self.note}" if self.note else "")
        if (command.state, reason) != (self.state, self.reason):
            self.state, self.reason = command.state, reason
            self.changes.append((command.state, reason))
        self._note_refusals()
        message = HandoffState(state=int(command.state), reason=reason)
        convert.set_time(message.header.stamp, convert.seconds_to_ns(report.now))
        message.request_id, message.epoch = command.request_id, command.epoch
        message.index, message.remaining = command.index, command.remaining
        message.expected_delay = self._handoff.requests.expected_delay
        message.measured_delay = self._handoff.measured_delay
        message.ticks, message.missed_ticks = counters.ticks, self.missed
        message.starved_ticks = counters.starved_ticks
        message.limited_ticks = self._handoff.guard.limited_ticks
        message.late_chunks = counters.late_chunks
        message.dropped_chunks = counters.dropped_chunks
        message.action_age = command.action_age
        message.tick_jitter = jitter
        message.deliver = report.deliver
        self._states.publish(message)

    def _note_refusals(self) -> None:
        counters, refusal = self._handoff.counters, self._handoff.intake.refusal
        before, self._refused = self._refused, counters.dropped_chunks
        if self._refused != before and refusal is not None and refusal.reason not in USUAL:
            self.refusals.append(("chunk", str(refusal)))
        before, self._unusable = self._unusable, counters.bad_measurements
        if self._unusable != before:
            self.refusals.append(("joint state", self._handoff.bad_measurement))

    def destroy(self) -> None:
        self._node.destroy_publisher(self._requests)
        self._node.destroy_publisher(self._states)
