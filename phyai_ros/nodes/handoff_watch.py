# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Why the arm stands still, as far as the control thread cannot know it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import State
from phyai_ros.control.told import way_out
from phyai_ros.nodes.diagnostics import EdgeLog
from phyai_ros.nodes.handoff_sink import HandoffSink
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.nodes.lingering import Lingering
from phyai_ros.nodes.outputs import Output
from phyai_ros.nodes.refusals import Refusals
from phyai_ros.nodes.streams import Stream

ACTING = (State.EXECUTING, State.RAMPING)
STANDSTILL = "standstill"
"""What is over and was no fault."""
TROUBLE = "trouble"
"""What is over and was none, but people are warned of."""
_KINDS = {
    State.FAULT: "fault",
    State.STARVED: "starved",
    State.HOLDING: STANDSTILL,
    State.WAITING: STANDSTILL,
}


class HandoffWatch:
    """``look``, a few times a second on the executor's thread, adds what the ROS graph knows to the
    sink's reasons and logs what begins and ends.

    speed: share of full speed at which the robot runs. disagreement: of policy and handoff about
    the method. dry_run: nobody need listen before the first
    command. standstill: why there are no ticks at all, empty while there are. unanswered: requests
    without an answer since the arm last moved.
    """

    def __init__(
        self,
        log: EdgeLog,
        handoff: Handoff,
        sink: HandoffSink,
        output: Output,
        chunks: Stream,
        joints: JointBuffer,
        speed: Callable[[], float],
        disagreement: Callable[[], str | None],
        *,
        dry_run: bool,
    ) -> None:
        self.standstill = ""
        self.unanswered = 0
        self._log = log
        self._handoff = handoff
        self._sink = sink
        self._output = output
        self._chunks = chunks
        self._joints = joints
        self._speed = speed
        self._disagreement = disagreement
        self._dry_run = dry_run
        self._timeouts = 0
        self._refusals = {what: Refusals(log, what) for what in ("chunk", "joint state")}
        self._passed = {k: Lingering() for k in (*_KINDS.values(), TROUBLE)}
        self.restart()

    def restart(self) -> None:
        """The ticks begin (again) now."""
        self._ticked = self._handoff.counters.ticks, time.monotonic()
        self.standstill = ""

    def look(self) -> bool:
        """Whether the state has changed since the last look."""
        self._check_ticks()
        self._sink.note = "; ".join(note for note in self._notes() if note)
        expected = self._sink.state is not State.WAITING or self._dry_run
        self._log.set(self._output.topic, self._output.trouble() if expected else None)
        self._take_refusals()
        return self._take_changes()

    def lately(self) -> dict[str, str | None]:
        """What was wrong for less than it takes to look, by kind, for people. Say ``told`` when it
        has reached them."""
        return {what: trouble.lately for what, trouble in self._troubles()}

    def told(self, lately: Mapping[str, str | None]) -> None:
        for what, trouble in self._troubles():
            trouble.told(lately[what])

    def _troubles(self) -> Iterator[tuple[str, Lingering]]:
        yield from self._passed.items()
        for what, refusals in self._refusals.items():
            yield what, refusals.trouble

    def _take_refusals(self) -> None:
        found = self._sink.refusals
        newest = dict(found.popleft() for _ in range(len(found)))
        for what, refusals in self._refusals.items():
            if what in newest:
                refusals.refuse(what, f"refused: {newest[what]}")
            else:
                refusals.good()

    def _take_changes(self) -> bool:
        changes = self._sink.changes
        if not changes:
            return False
        *passed, newest = [changes.popleft() for _ in range(len(changes))]
        for kind, trouble in self._passed.items():
            over = [change for change in passed if _kind(*change) == kind]
            if over and over[-1] != newest:
                trouble.set(f"lately {self._log_state(*over[-1])}")
                trouble.set(None)
        self._log_state(*newest)
        return True

    def _log_state(self, state: State, reason: str) -> str | None:
        asked = _kind(state, reason) == STANDSTILL and not self._handoff.starved
        text = None if state in ACTING else f"{state.name}: {reason}"
        self._log.set("handoff", text, expected=asked)
        return text

    def _notes(self) -> list[str | None]:
        state, timeouts = self._sink.state, self._handoff.counters.request_timeouts
        if state in ACTING:
            self._timeouts, self.unanswered = timeouts, 0
            return []
        notes = [self._chunks.trouble(), self._disagreement()]
        self.unanswered = timeouts - self._timeouts
        if self.unanswered:
            notes.append("requests are unanswered")  # how many changes too often for a log
        if state is State.WAITING:
            notes.append(self._joints.trouble(time.monotonic()))
        return notes

    def _check_ticks(self) -> None:
        now, ticks = time.monotonic(), self._handoff.counters.ticks
        if ticks != self._ticked[0]:
            self._ticked = ticks, now
        # Ticks are the robot's own time: fewer where it says that it runs slowly.
        longest = max(1.0, 3.0 * self._handoff.config.period / self._speed())
        silent = now - self._ticked[1] > longest
        self.standstill = "no tick: the node's clock stands still, nothing is sent" * silent
        self._log.set("control timer", self.standstill or None)


def _kind(state: State, reason: str) -> str | None:
    """Of a state in which the arm stands or comes to rest."""
    kind = _KINDS.get(state)
    return TROUBLE if kind == STANDSTILL and way_out(state, reason) else kind
