# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ``~/hold``, ``~/resume``, ``~/reset`` and ``~/episode`` answer, on a virtual clock."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.nodes import handoff_services
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.handoff_services import HandoffServices
from phyai_ros.nodes.holds import Holds

PERIOD = 0.4


class Cell:
    """An arm that executes, its services by name, and a control thread that is stepped by hand."""

    def __init__(self) -> None:
        limits = Limits(("a",), [-9], [9], [1], [9])
        self.handoff = Handoff(limits, HandoffConfig(PERIOD, 8))
        self.now, self.services, self.answered = 100.0, {}, threading.Event()
        self.patient = False
        output = SimpleNamespace(let_go=lambda measured: True)
        self.speed = 1.0
        self.loop = ControlLoop(
            self.handoff, self, lambda: self.now, self.measured, lambda: self.speed
        )
        holds = Holds(self.handoff, output)
        self.running = True
        HandoffServices(self, self.loop, holds, self.handoff, lambda: self.running, lambda: None)
        self.run(5)

    def create_service(self, kind, name, callback):
        self.services[name.removeprefix("~/")] = callback

    def measured(self):
        """Between what was posted and the tick: here an answer that comes too early comes."""
        if self.patient:
            self.answered.wait(0.02)
        return np.zeros(1)

    def command(self, positions):
        pass

    def report(self, report):
        pass

    def request(self, request):
        rows = np.zeros((16, 1))
        chunk = Chunk(request.request_id, request.epoch, self.now, ("a",), PERIOD, rows)
        self.loop.post_chunk(chunk, self.now)

    def run(self, ticks):
        for _ in range(ticks):
            self.loop.tick()
            self.now += PERIOD

    def call(self, name, request=None):
        response = SimpleNamespace(success=False, message="")

        def ask():
            self.services[name](request, response)
            self.answered.set()

        asking = threading.Thread(target=ask)
        asking.start()
        self.answered.clear()
        self.patient = True
        while asking.is_alive():
            self.run(1)
        self.patient = False
        return response


@pytest.mark.parametrize(
    ("name", "state", "next_"),
    [
        ("hold", "HOLDING", ""),
        ("reset", "WAITING", ": the next fresh chunk moves the arm"),
    ],
)
def test_the_answer_is_the_state_that_came_of_it_and_what_is_next(name, state, next_):
    cell = Cell()
    assert cell.handoff.state.name == "EXECUTING"
    response = cell.call(name)
    assert response.success
    assert response.message == f"{state}, epoch {cell.handoff.epoch}{next_}"


def test_an_arm_that_comes_to_rest_behind_a_resume_is_not_said_to_stay_there():
    cell = Cell()
    cell.call("hold")
    assert cell.call("resume").message.endswith(": the next fresh chunk moves the arm")


def test_a_robot_that_runs_slowly_is_not_said_to_do_already_what_it_will():
    cell = Cell()
    cell.speed = 1e-3  # no tick for long
    response = cell.call("hold")
    assert response.success
    assert response.message == f"EXECUTING until the next tick, epoch {cell.handoff.epoch}"


@pytest.mark.parametrize("name", ["hold", "resume", "reset"])
def test_what_was_answered_with_no_does_not_happen_later_but_a_hold_does(name, monkeypatch):
    """The process stood still: an arm that began to move long after somebody had been told that
    nothing was done would find them beside it."""
    monkeypatch.setattr(handoff_services, "PATIENCE", 0.05)
    cell = Cell()
    if name == "resume":
        cell.call("hold")
    epoch, response = cell.handoff.epoch, SimpleNamespace(success=False, message="")
    cell.services[name](None, response)
    assert not response.success
    assert response.message.startswith("the control loop has not run for 0.05 s")
    assert ("nothing was done" in response.message) is (name != "hold")
    cell.run(3)
    held = cell.handoff.state.name == "HOLDING"
    assert held is (name != "reset")
    assert cell.handoff.epoch == epoch


def test_where_nobody_ticks_the_answer_is_no():
    cell = Cell()
    cell.running = False
    response = cell.call("hold")
    assert not response.success
    assert "is the node active?" in response.message


def test_an_episode_is_ended_and_begun_where_nobody_has_to_look_first():
    cell = Cell()
    ends, begins = SimpleNamespace(data=False), SimpleNamespace(data=True)
    assert cell.call("episode", ends).message == f"HOLDING, epoch {cell.handoff.epoch}"
    assert cell.call("episode", begins).success
    cell.run(3)
    assert cell.handoff.state.name == "EXECUTING"
    cell.handoff.fail("/other sends commands too")
    for request in (ends, begins):
        epoch, answer = cell.handoff.epoch, cell.call("episode", request)
        assert not answer.success
        assert answer.message.startswith("FAULT: /other sends commands too; only a person")
        assert (cell.handoff.state.name, cell.handoff.epoch) == ("FAULT", epoch)
    assert cell.call("reset").success
    assert cell.handoff.state.name != "FAULT"
