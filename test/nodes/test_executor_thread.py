# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""An executor's thread ends when told, whatever it was about to do."""

import threading

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor

from phyai_ros.nodes.executor_thread import ExecutorThread

DOMAIN = 38


@pytest.fixture
def node(monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    context = rclpy.Context()
    rclpy.init(context=context, args=[], domain_id=DOMAIN)
    node = rclpy.create_node("spun", context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


@pytest.fixture
def executor(node):
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    return executor


def test_stop_at_any_moment_of_a_wait_ends_the_thread_without_an_error(node):
    node.create_timer(5e-5, lambda: None)
    ends = []
    for _ in range(400):
        executor = SingleThreadedExecutor(context=node.context)
        executor.add_node(node)
        assert ExecutorThread(executor, "spin", ends.append).stop()
    assert ends == [None] * 400


def test_stop_wakes_a_thread_that_waits_for_nothing(executor):
    spinning = ExecutorThread(executor, "spin")
    assert spinning.stop()
    assert not spinning.alive()


def test_a_context_that_is_shut_down_is_no_error(node, executor):
    ends = []
    spinning = ExecutorThread(executor, "spin", ends.append)
    node.context.try_shutdown()
    assert spinning.stop()
    assert ends == [None]


def test_what_a_callback_raises_is_told(node, executor):
    told = threading.Event()
    ends = []

    def fail():
        raise ValueError("from a callback")

    node.create_timer(1e-3, fail)
    spinning = ExecutorThread(executor, "spin", lambda error: (ends.append(error), told.set()))
    assert told.wait(30)
    assert isinstance(ends[0], ValueError)
    assert spinning.stop()


def test_a_callback_that_does_not_return_keeps_its_executor(node, executor):
    inside, leave = threading.Event(), threading.Event()

    def hang():
        inside.set()
        leave.wait(30)

    node.create_timer(1e-3, hang)
    spinning = ExecutorThread(executor, "spin")
    assert inside.wait(30)
    assert not spinning.stop(timeout=0.05)
    leave.set()
    assert spinning.stop()
