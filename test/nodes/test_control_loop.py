# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The control loop with a robot that runs slower than it is told, on a virtual clock."""

import numpy as np
import pytest

from phyai_ros.control import leftover
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.states import State
from phyai_ros.nodes.control_loop import ControlLoop

START, PERIOD = 1_795_000_000.0, 0.05


class Cell:
    """sink of the loop, and the policy: a ramp of one joint, by the clock."""

    def __init__(self, speed, **config):
        limits = Limits(("a",), [-99], [99], [100], [1e4])
        self.handoff = Handoff(limits, HandoffConfig(PERIOD, 8, **config))
        self.now, self.speed = START, speed
        self.commands, self.requests, self.reports, self.refusals = [], [], [], []
        self.measured = np.zeros(1)
        self.asked = {}  # request -> when
        self.delay = 0.1
        self.ahead = 0.0  # of a steady clock
        self.loop = ControlLoop(
            self.handoff,
            self,
            lambda: self.now,
            lambda: self.measured,
            lambda: self.speed,
            lambda: self.now - self.ahead,
        )

    def command(self, positions):
        self.commands.append((self.now, positions[0]))

    def request(self, request):
        self.requests.append(request)
        self.asked[request.request_id] = self.now
        self.answer(request, self.now - self.delay)

    def answer(self, request, stamp):
        # What the policy sees at ``stamp`` is the arm; it plans one unit a second from there.
        seen = [p for t, p in self.commands if t <= stamp][-1:] or [0.0]
        rows = seen[0] + PERIOD * np.arange(16)[:, None]
        chunk = Chunk(request.request_id, request.epoch, stamp, ("a",), PERIOD, rows)
        self.loop.post_chunk(chunk, self.now)

    def report(self, report):
        self.reports.append(report)

    def refused(self, refusal):
        self.refusals.append(str(refusal))

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.loop.tick()
            self.now += PERIOD


@pytest.mark.parametrize("speed", [1.0, 0.7, 0.5, 0.2])
def test_the_plan_is_played_in_the_arms_own_time(speed):
    cell = Cell(speed)
    cell.delay = 0.0  # else the first chunk's rows lie before the first command
    cell.run(10.0)
    executing = [(t, p) for t, p in cell.commands if t > START + 2.0]
    (t0, p0), (t1, p1) = executing[0], executing[-1]
    assert (p1 - p0) / (t1 - t0) == pytest.approx(speed, rel=0.1)
    steps = np.diff([p for _, p in executing])
    assert steps.max() <= PERIOD * 1.5  # never faster than a row a tick
    assert cell.handoff.counters.starved_ticks == 0


def test_messages_are_in_the_clocks_time_and_ages_too():
    cell = Cell(0.5)
    cell.run(6.0)
    request, report = cell.requests[-1], cell.reports[-1]
    assert START < request.not_before <= cell.now
    assert abs(request.first_time - cell.now) < 4.0
    assert report.now == pytest.approx(cell.now - PERIOD, abs=2.5 * PERIOD)
    acting = [r.command for r in cell.reports if r.command.state is State.EXECUTING]
    # By the clock: at half speed the eight rows of a chunk take 0.8 s.
    assert max(command.action_age for command in acting) > 0.6


def test_an_observation_that_is_too_old_by_the_clock_is_too_old_however_slow_the_arm_is():
    cell = Cell(0.05, max_chunk_age=2.0)
    cell.delay = 3.0
    cell.run(3.0)
    assert cell.handoff.counters.dropped["too_old"] >= 1
    assert cell.handoff.counters.accepted_chunks == 0


@pytest.mark.parametrize("delay", [0.1, 0.4])
@pytest.mark.parametrize("speed", [1.0, 0.7, 0.5, 0.2])
def test_what_is_left_over_lies_at_the_observation_however_slow_the_arm_is(speed, delay):
    """Row 0 of what a guided policy is to agree with is the command of its observation's tick."""
    cell = Cell(speed)
    cell.delay = delay
    cell.run(10.0)
    seen = 0
    for request in cell.requests[-5:]:
        stamp = cell.asked[request.request_id] - delay
        cut = leftover.seen_from(
            stamp, PERIOD, request.leftover, request.first_time, request.step, request.committed
        )
        then = [p for t, p in cell.commands if t <= stamp + 1e-6][-1]
        seen += len(cut.rows) > 0
        if len(cut.rows):
            assert cut.rows[0, 0] == pytest.approx(then, abs=0.75 * PERIOD)
    assert seen >= 4


@pytest.mark.parametrize("inactive", [0.2, 0.7, 30.0])
def test_a_deactivated_nodes_time_is_neither_missed_nor_a_jump_of_the_clock(inactive):
    cell = Cell(1.0)
    cell.run(2.0)
    cell.loop.post(lambda now: cell.handoff.hold("node deactivated"))
    cell.run(1.0)
    cell.handoff.pause()
    cell.now += inactive
    cell.loop.post(cell.handoff.resume)
    before = len(cell.reports)
    cell.run(1.0)
    counters = cell.handoff.counters
    assert (counters.missed_ticks, counters.clock_jumps) == (0, 0)
    reasons = {report.command.reason for report in cell.reports[before:]}
    assert not any("jumped" in reason for reason in reasons)
    assert cell.reports[-1].command.state is State.EXECUTING
    ticks = [report.command.tick for report in cell.reports]
    assert ticks == list(range(len(ticks)))


@pytest.mark.parametrize("step", [0.3, 0.9, -0.3, 40.0])
def test_a_clock_that_is_set_skips_no_rows(step):
    """By less than a second forward too, which the ticks alone take for a process that stood still:
    the arm hurried after rows that were not due, within its limits."""
    cell = Cell(1.0)
    cell.run(2.0)
    before, epoch = cell.commands[-1][1], cell.handoff.epoch
    cell.now, cell.ahead = cell.now + step, cell.ahead + step
    cell.run(PERIOD)
    assert cell.handoff.epoch == epoch + 1
    assert cell.commands[-1][1] - before <= 1.01 * PERIOD  # no faster than the plan was
    assert "the clock jumped by" in cell.reports[-1].command.reason
    cell.run(1.0)
    assert cell.reports[-1].command.state is State.EXECUTING
    counters = cell.handoff.counters
    assert (counters.clock_jumps, counters.missed_ticks) == (1, 0)


def test_a_process_that_stood_still_is_no_clock_that_is_set():
    cell = Cell(1.0)
    cell.run(2.0)
    cell.now += 0.3
    cell.run(1.0)
    counters = cell.handoff.counters
    assert (counters.clock_jumps, counters.missed_ticks) == (0, 6)


def test_a_lost_request_is_repeated_by_the_clock_however_slow_the_arm_is():
    cell = Cell(0.1, request_timeout=2.0)
    cell.answer = lambda request, stamp: None
    cell.run(7.0)
    asked = list(cell.asked.values())
    assert len(asked) >= 3
    # At a tenth of the speed there is a tick every half second.
    assert all(2.0 <= gap <= 2.6 for gap in np.diff(asked))


def test_an_answer_that_takes_long_is_waited_for_however_slow_the_arm_is():
    cell = Cell(0.2, request_timeout=0.5)
    pending = []
    cell.answer = lambda request, stamp: pending.append((cell.now + 2.0, request, stamp))
    for _ in range(600):
        cell.run(PERIOD)
        for item in [i for i in pending if i[0] <= cell.now]:
            pending.remove(item)
            Cell.answer(cell, item[1], item[2])
    late = cell.handoff.counters.request_timeouts
    cell.run(PERIOD)
    assert cell.handoff.counters.accepted_chunks > 5
    assert late <= 8  # before the first answers had been measured, and not since


@pytest.mark.parametrize("speed", [1.0, 0.1])
def test_a_policy_that_has_died_is_a_fault_after_the_same_time_however_slow_the_arm_is(speed):
    cell = Cell(speed, fault_after=3.0)
    cell.run(10.0)
    cell.answer = lambda request, stamp: None
    cell.run(30.0)
    states = [(report.now, report.command.state) for report in cell.reports]
    starved = next(at for at, state in states if state is State.STARVED)
    failed = next(at for at, state in states if state is State.FAULT)
    # At a tenth of the speed there is a tick every half second.
    assert 3.0 <= failed - starved <= 3.6
    assert cell.reports[-1].command.reason == f"no chunk for {failed - starved:.1f} s"


@pytest.mark.parametrize("speed", [1.0, 0.1])
def test_an_arm_of_which_nothing_is_known_is_let_go_after_a_second_of_the_clock(speed):
    cell = Cell(speed)
    cell.run(10.0)
    cell.loop.post(lambda now: cell.handoff.hold("held"))
    cell.run(0.6)
    cell.measured = np.array([cell.commands[-1][1]])
    cell.run(2.0)
    seen, cell.measured = cell.now, None
    cell.run(3.0)
    assert cell.handoff.guard.last is None
    assert 1.0 <= cell.commands[-1][0] - seen + PERIOD / speed <= 1.0 + 2.0 * PERIOD / speed


@pytest.mark.parametrize("stamp", [1.0, 2 * START])
def test_an_answer_from_another_clock_does_not_move_what_is_left_over(stamp):
    """At 2 * START the request's time would not even fit into its message."""
    cell = Cell(0.5)
    cell.run(4.0)
    own, foreign = cell.answer, cell.requests[-1].request_id + 1
    cell.answer = lambda request, seen: own(
        request, stamp if request.request_id == foreign else seen
    )
    cell.run(4.0)
    assert any(request.request_id > foreign for request in cell.requests)
    asked = [(r.first_time, cell.asked[r.request_id]) for r in cell.requests if len(r.leftover)]
    assert all(abs(first - at) < 2.0 for first, at in asked)
