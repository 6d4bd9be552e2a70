# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A tool comes into the ROS graph and leaves it whole, whatever ends it."""

import os
import signal
import threading
import time

import pytest
from rclpy.exceptions import InvalidNodeNameException

from phyai_ros.nodes import participant
from phyai_ros.nodes.participant import Participant


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("ROS_DOMAIN_ID", "99")


def test_it_spins_what_its_node_has_and_is_gone_behind_it():
    came = []
    with Participant("tool") as here:
        here.node.create_timer(1e-3, lambda: came.append(1))
        while not came:
            here.spin(5.0)
        assert here.node.context.ok()
    assert not here.node.context.ok()


def test_ctrl_c_is_the_tools_own_and_what_it_opened_is_closed():
    here = Participant("tool")
    here.node.create_timer(1e-3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), here:
        here.executor.spin()
    assert not here.node.context.ok()


def test_a_name_that_ros_refuses_leaves_no_context(monkeypatch):
    contexts = []
    make = participant.Context
    monkeypatch.setattr(participant, "Context", lambda: contexts.append(make()) or contexts[-1])
    with pytest.raises(InvalidNodeNameException):
        Participant("no name")
    assert [context.ok() for context in contexts] == [False]


def test_started_it_spins_on_a_thread_that_ends_with_it():
    with Participant("tool") as here:
        threads = []
        here.node.create_timer(1e-3, lambda: threads.append(threading.current_thread()))
        here.start()
        while not threads:
            time.sleep(1e-3)
        assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()
    assert not here.node.context.ok()


def test_with_simulated_time_its_clock_stands_until_somebody_tells_the_time():
    with Participant("tool", use_sim_time=True) as here:
        assert here.node.get_clock().now().nanoseconds == 0
