# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What was over before anybody looked is told all the same, once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.states import State
from phyai_ros.control.tracking import OFF_COURSE
from phyai_ros.nodes import lingering
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, EdgeLog
from phyai_ros.nodes.handoff_sink import HandoffSink
from phyai_ros.nodes.handoff_status import handoff_status
from phyai_ros.nodes.handoff_watch import HandoffWatch

PERIOD = 0.05


class Cell:
    """A handoff, its loop, sink and watch; the policy answers each request at once by ``rows``."""

    def __init__(self):
        self.lines, self.now, self.measured = [], 100.0, np.zeros(1)
        self.answers, self.requests = True, []
        limits = Limits(("a",), [-9], [9], [5], [50])
        self.handoff = Handoff(limits, HandoffConfig(PERIOD, 8))
        fine = SimpleNamespace(trouble=lambda *_: None, topic="/commands", publish=lambda _: None)
        self.sink = HandoffSink(self, self.handoff, fine)
        self.sink.request = self.request
        self.loop = ControlLoop(self.handoff, self.sink, lambda: self.now, lambda: self.measured)
        self.warned = []
        log = EdgeLog(SimpleNamespace(info=self.say, warning=self.warn, error=self.warn))
        self.watch = HandoffWatch(
            log, self.handoff, self.sink, fine, fine, fine, lambda: 1.0, lambda: None, dry_run=False
        )
        self.run(20)

    def say(self, line):
        self.lines.append(line)

    def warn(self, line):
        self.warned.append(line)
        self.say(line)

    def create_publisher(self, *_):
        return SimpleNamespace(publish=lambda message: None)

    def request(self, request):
        self.requests.append(request)
        if self.answers:
            self.answer(request, 0.02 * np.arange(16)[:, None])

    def answer(self, request, rows):
        chunk = Chunk(request.request_id, request.epoch, self.now, ("a",), PERIOD, rows)
        self.loop.post_chunk(chunk, self.now)

    def run(self, ticks):
        for _ in range(ticks):
            self.loop.tick()
            self.now += PERIOD

    def status(self):
        self.watch.look()
        return handoff_status(self.handoff, self.sink, None, self.watch)

    def quiet(self):
        """As a healthy one is told."""
        for _ in range(3):
            status = self.status()
            status.told()
        assert (status.level, status.message) == (OK, "EXECUTING: executing")
        self.lines.clear()


@pytest.fixture
def cell(monkeypatch):
    monkeypatch.setattr(lingering, "LINGERS", 0.0)
    made = Cell()
    made.quiet()
    return made


def test_a_tick_without_an_action_is_told(cell):
    cell.answers = False
    while cell.handoff.state is not State.STARVED:
        cell.run(1)
    cell.answers = True
    cell.answer(cell.requests[-1], 0.02 * np.arange(16)[:, None])
    cell.run(2)
    assert cell.handoff.state is State.EXECUTING
    for _ in range(2):  # it is not published each time that it is looked at
        status = cell.status()
        assert status.level == WARN
        assert "lately STARVED: the chunk ran out before the next one came" in status.message
    status.told()
    assert cell.status().level == OK
    assert any("STARVED" in line for line in cell.lines)
    assert any("over (STARVED" in line for line in cell.lines)


def test_a_fault_that_somebody_reset_at_once_is_told(cell):
    cell.handoff.fail("another master")
    cell.run(1)
    cell.handoff.reset(cell.now)
    cell.run(1)
    assert "lately FAULT: another master" in cell.status().message


def test_a_standstill_that_is_no_fault_is_told_and_no_warning(cell):
    cell.handoff.set_instruction("another", cell.now)
    cell.run(3)
    status = cell.status()
    assert status.level == OK
    assert "lately HOLDING: new instruction" in status.message
    assert cell.warned == []


def off_course(cell):
    trouble = f"a is 0.783 rad from all commands of the last 8 ticks: {OFF_COURSE}"
    cell.handoff.hold(trouble)
    cell.run(3)
    return f"HOLDING: {trouble}"


def stood(cell):
    cell.now += 1.5
    cell.run(1)
    return ": the control timer stood for 1.500 s, or the clock jumped"


@pytest.mark.parametrize("happens", [off_course, stood])
@pytest.mark.parametrize("over", [False, True])
def test_an_arm_that_stands_and_nobody_asked_for_it_is_a_warning(cell, happens, over):
    """Both were a line for the record alone: ``up`` shows warnings."""
    text = happens(cell)
    if over:
        cell.handoff.resume(cell.now)
        cell.run(3)
        assert cell.handoff.state is State.EXECUTING
    status = cell.status()
    assert status.level == WARN
    assert text in status.message
    assert text in "\n".join(cell.warned)


def test_a_chunk_that_was_refused_while_the_arm_went_on_is_told(cell):
    rows = np.zeros((16, 1))
    rows[3] = np.nan
    cell.answers = False
    asked = len(cell.requests)
    while len(cell.requests) == asked:
        cell.run(1)
    cell.answer(cell.requests[-1], rows)
    cell.answers = True
    cell.run(2)
    assert cell.handoff.state is State.EXECUTING
    status = cell.status()
    assert status.level == WARN
    assert "refused: non_finite: nan at row 3, joint a" in status.message
    status.told()
    assert cell.status().level == OK


def test_a_chunk_that_came_too_late_for_its_epoch_is_none_to_tell(cell):
    cell.answers = False
    asked = len(cell.requests)
    while len(cell.requests) == asked:
        cell.run(1)
    cell.answers = True
    cell.handoff.set_instruction("another", cell.now)
    cell.answer(cell.requests[-1], np.zeros((16, 1)))
    cell.run(3)
    assert cell.handoff.counters.dropped["old_epoch"] == 1
    assert "refused" not in cell.status().message


def test_a_joint_state_that_cannot_be_is_told_while_the_arm_goes_on(cell):
    cell.measured = np.array([1e3])
    cell.run(1)
    cell.measured = np.zeros(1)
    cell.run(1)
    status = cell.status()
    assert status.level == WARN
    assert "refused: a is far outside [-9, 9] or no number; is its unit right?" in status.message
    assert status.values["unusable joint states"] == 1


def test_an_arm_that_is_in_a_fault_now_is_an_error(cell):
    cell.handoff.fail("another master")
    cell.run(1)
    assert cell.status().level == ERROR
