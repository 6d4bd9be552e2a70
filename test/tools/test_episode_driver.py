# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""From one episode to the next: what is waited for, and what is not."""

import json

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import SetBool, Trigger

from phyai_ros.tools import report
from phyai_ros.tools.episode_driver import DriverError, EpisodeDriver
from phyai_ros.tools.recorder import Recorder

DOMAIN = 54


@pytest.fixture
def node(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    node = rclpy.create_node("test_driver", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()


@pytest.mark.parametrize("there", [False, True], ids=["no service", "no answer"])
def test_the_wait_ends_with_the_reason_of_the_run(node, there):
    node, executor = node
    calls = []

    def spin(seconds):
        calls.append(seconds)
        executor.spin_once(timeout_sec=seconds)

    def stopped():
        ready = len(calls) > 2 and (not there or driver._episode.service_is_ready())
        return "sim_node was killed by SIGKILL" if ready else None

    if there:  # it is there, and answers only what the executor would let it
        other = rclpy.create_node("silent", context=node.context)
        other.create_service(SetBool, "handoff_node/episode", lambda _, response: response)
    driver = EpisodeDriver(node, Recorder(node, {}, (), ()), spin, stopped)
    with pytest.raises(DriverError, match=r"^sim_node was killed by SIGKILL$"):
        driver.next()
    assert sum(calls) < 10.0
    if there:
        other.destroy_node()


class Cell:
    """A simulator that draws episodes, and a handoff that has reasons against it."""

    def __init__(self, node, executor):
        self.drawn, self.against = 0, []
        node.create_service(Trigger, "sim_node/reset", self.draw)
        node.create_service(SetBool, "handoff_node/episode", self.episode)
        self.recorder = Recorder(node, {}, (), ())
        self.driver = EpisodeDriver(node, self.recorder, lambda s: executor.spin_once(s))
        self.say("start", 0)
        self.driver.begin_first()
        self.driver._said = "reach"

    def draw(self, request, response):
        self.drawn += 1
        self.say("start", self.drawn)
        response.success, response.message = True, json.dumps(self.event("start", self.drawn))
        return response

    def episode(self, request, response):
        expected, response.message = self.against.pop(0) if self.against else (request.data, "")
        assert expected is request.data
        response.success = not response.message
        return response

    def event(self, kind, seed, **more):
        return {"event": kind, "seed": seed, "instruction": "reach", "time": 1.0, **more}

    def say(self, kind, seed, **more):
        self.recorder.on_episode(self.event(kind, seed, **more))

    @property
    def seeds(self):
        return [e.about["seed"] for e in self.recorder.recording.episodes]


def test_the_next_episode_waits_until_the_handoff_lets_it(node):
    cell = Cell(*node)
    assert not cell.driver.finished()
    cell.say("end", 0, success=True)
    assert cell.driver.finished()
    cell.against = [(False, "FAULT: two"), (False, ""), (True, "held by service")]
    assert cell.driver.next() == "FAULT: two"
    assert cell.drawn == 0, "nothing is moved before somebody has looked at the arm"
    assert cell.driver.next() == "held by service"
    assert cell.driver.finished(), "it has not begun"
    assert (cell.driver.next(), cell.drawn, cell.seeds) == ("", 1, [0, 1])
    assert not cell.driver.finished()


def test_an_episode_that_somebody_else_drew_anew_is_over(node):
    """Its end never came, and the run went on for ever: two simulators hear one reset, and a person
    may call it, too."""
    cell = Cell(*node)
    cell.say("start", 0)
    assert not cell.driver.finished(), "that is its own"
    cell.say("start", 1)
    assert cell.driver.finished()
    recording = cell.recorder.recording
    assert recording.episodes[0].success is None
    assert report.build(recording, {})["episodes"][0]["finished"] is False
    assert recording.redrawn == 1
    assert (cell.driver.next(), cell.seeds, cell.drawn) == ("", [0, 1], 0), "that is the next one"
    assert not cell.driver.finished()
