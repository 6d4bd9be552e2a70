# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An exception in the control loop: wherever it comes from, the arm brakes within its limits."""

import numpy as np
import pytest

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.methods import Replace
from phyai_ros.control.states import State
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.fail_safe import FailSafe

START, PERIOD, SPEED, ACCELERATION = 1000.0, 0.05, 1.0, 4.0


class TrapError(Exception):
    pass


class Join(Replace):
    """A handoff method with a fault in it."""

    broken = False

    def splice(self, *arguments):
        if self.broken:
            raise TrapError
        return super().splice(*arguments)


class Cell:
    """The sink of the loop and the policy: one joint that moves at SPEED. ``broken`` names a
    method of this class that raises from then on."""

    def __init__(self):
        limits = Limits(("a",), [-99], [99], [2 * SPEED], [ACCELERATION])
        self.method = Join()
        self.handoff = Handoff(limits, HandoffConfig(PERIOD, 8), self.method)
        self.now, self.broken = START, ""
        self.commands, self.states, self.failures = [], [], []
        self.loop = ControlLoop(self.handoff, self, lambda: self.now, self.measured)
        self.safe = FailSafe(self.loop, self.handoff, self, self.failures.append)

    def _trap(self, name):
        if self.broken == name:
            raise TrapError(name)

    def measured(self):
        self._trap("measured")
        return np.zeros(1)

    def command(self, positions):
        self.commands.append((self.now, float(positions[0])))

    def request(self, request):
        self._trap("request")
        rows = SPEED * (self.now - START + PERIOD * np.arange(16)[:, None])
        self.loop.post_chunk(
            Chunk(request.request_id, request.epoch, self.now, ("a",), PERIOD, rows), self.now
        )

    def report(self, report):
        self._trap("report")
        self.states.append(report.command)

    def refused(self, refusal):
        raise AssertionError(refusal)

    def run(self, ticks):
        for _ in range(ticks):
            self.safe.tick()
            self.now += PERIOD

    def speeds(self):
        times, positions = np.array(self.commands).T
        np.testing.assert_allclose(np.diff(times), PERIOD)  # one a tick, none left out
        return np.diff(positions) / PERIOD


def break_inbox(cell):
    def action(now):
        raise TrapError

    cell.loop.post(action)


def break_method(cell):
    cell.method.broken = True


def break_own(name):
    return lambda cell: setattr(cell, "broken", name)


@pytest.mark.parametrize(
    "damage",
    [break_inbox, break_method, *map(break_own, ("measured", "request", "report"))],
    ids=["inbox", "method", "measured", "request", "report"],
)
def test_the_arm_brakes_within_its_limits_and_only_then_the_loop_ends(damage):
    cell = Cell()
    cell.run(40)
    assert cell.speeds()[-1] == pytest.approx(SPEED)
    damage(cell)
    with pytest.raises(TrapError):
        cell.run(60)
    speeds = cell.speeds()
    assert speeds[-1] == pytest.approx(0.0, abs=ACCELERATION * PERIOD + 1e-9)
    assert cell.handoff.guard.standing
    assert np.abs(np.diff(speeds)).max() <= ACCELERATION * PERIOD + 1e-9
    assert len(cell.failures) == 1
    if cell.broken not in ("report", "measured"):  # these keep the loop from saying anything
        assert cell.states[-1].state is State.FAULT
        assert "TrapError" in cell.states[-1].reason


def test_nothing_posted_moves_a_failed_loop_on():
    cell = Cell()
    cell.run(40)
    break_inbox(cell)
    cell.run(1)
    cell.loop.post(cell.handoff.reset)
    with pytest.raises(TrapError):
        cell.run(60)
    assert cell.states[-1].state is State.FAULT


def test_an_arm_that_was_not_commanded_is_sent_nothing():
    cell = Cell()
    break_inbox(cell)
    with pytest.raises(TrapError):
        cell.run(60)
    assert cell.commands == []
    assert cell.states[-1].state is State.FAULT


def test_where_even_braking_fails_it_ends_at_once():
    cell = Cell()
    cell.run(40)

    def no_command(positions):
        raise ConnectionError

    cell.command = no_command
    with pytest.raises(ConnectionError):
        cell.run(1)
    assert len(cell.failures) == 1
