# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a subscription says about itself, and what a callback may do to it."""

from __future__ import annotations

import time

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.topic_endpoint_info import TopicEndpointInfo
from std_msgs.msg import String

from phyai_ros.nodes import qos
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, EdgeLog
from phyai_ros.nodes.streams import Stream


class Log:
    def __init__(self):
        self.lines: list[tuple[str, str]] = []

    def info(self, text):
        self.lines.append(("info", text))

    def warning(self, text):
        self.lines.append(("warning", text))

    def error(self, text):
        self.lines.append(("error", text))


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def node(ros):
    node = rclpy.create_node("listener", context=ros)
    yield node
    node.destroy_node()


def make(node, log, callback, **settings):
    return Stream(node, "words", String, "words", qos.chunk(), callback, EdgeLog(log), **settings)


def spin(node, condition):
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        executor.spin_once(timeout_sec=0.1)
    executor.remove_node(node)


def test_a_refusal_is_counted_said_once_and_over_when_a_good_one_comes(node, log):
    def callback(message):
        if not message.data:
            raise ValueError("it is empty")

    stream = make(node, log, callback)
    for text in ("", "", "", "word"):
        stream.deliver(String(data=text))
    assert log.lines == [
        ("warning", "/words: it is empty"),
        ("info", "/words: over (it is empty)"),
    ]
    assert stream.refused.as_dict() == {"ValueError": 3}
    assert stream.received == 4


def test_a_callback_that_breaks_breaks_nothing_else_and_leaves_its_traceback(node, log):
    def callback(message):
        raise KeyError("missing")

    stream = make(node, log, callback)
    stream.deliver(String())
    assert log.lines[0][0] == "error"
    assert "Traceback" in log.lines[0][1]
    assert stream.refused.as_dict() == {"KeyError": 1}


def test_no_publisher_then_no_message_then_fine_then_silent(node, log):
    heard = []
    stream = make(node, log, heard.append, stale_after=0.2)
    assert stream.status().message == "no publisher on /words"
    assert stream.status().level == ERROR
    publisher = node.create_publisher(String, "words", qos.chunk())
    spin(node, lambda: stream.trouble() == "1 publisher(s) on /words, but no message yet")
    spin(node, lambda: publisher.publish(String(data="hello")) or heard)
    assert stream.status().level == OK
    spin(node, lambda: "no message for" in (stream.trouble() or ""))
    node.destroy_publisher(publisher)


def test_a_timed_stream_tells_how_long_the_message_took(node, log):
    ages = []
    stream = make(node, log, lambda message, age: ages.append(age), timed=True)
    publisher = node.create_publisher(String, "words", qos.chunk())
    before = time.monotonic()
    spin(node, lambda: publisher.publish(String(data="hello")) or ages)
    assert 0.0 <= ages[0] <= time.monotonic() - before
    stream.destroy()
    node.destroy_publisher(publisher)


@pytest.mark.parametrize("foreign", ["Shape", "a/b/c/d", ""])
def test_a_publisher_that_is_no_ros_node_is_named_and_breaks_nothing(node, log, foreign):
    stream = make(node, log, lambda message: None)
    said = stream._mismatch(
        TopicEndpointInfo(node_name="shapes", node_namespace="/", topic_type=foreign)
    )
    assert said == f"publisher /shapes on /words sends {foreign}, expected std_msgs/msg/String"


def test_a_bad_publisher_beside_a_good_one_does_not_flood_the_log(node, log):
    def callback(message):
        if message.data != "good":
            raise ValueError(message.data)

    stream = make(node, log, callback)
    for k in range(200):
        stream.deliver(String(data=f"bad {k}"))
        stream.deliver(String(data="good"))
    assert stream.refused.total == 200
    assert len(log.lines) < 100  # a pair a second


def test_a_refusal_between_two_looks_is_in_the_status_all_the_same(node, log):
    """A storm of good and bad ones, and a look that always falls behind a good one."""

    def callback(message):
        if not message.data:
            raise ValueError("it is empty")

    stream = make(node, log, callback, required=False)
    publisher = node.create_publisher(String, "words", qos.chunk())
    spin(node, lambda: stream.publishers())
    stream.deliver(String(data="good"))
    assert stream.status().level == OK
    for text in ("", "good"):
        stream.deliver(String(data=text))
    assert stream.trouble() is None  # what is so now is told to who asks for it
    status = stream.status()
    assert (status.level, status.message) == (WARN, "refused: it is empty")
    status.told()
    spin(node, lambda: stream.status().level == OK)
    node.destroy_publisher(publisher)


def test_publishers_that_appear_are_told_once(node, log):
    stream = make(node, log, lambda message: None)
    assert stream.arrivals() == 0
    first = node.create_publisher(String, "words", qos.chunk())
    found = []
    spin(node, lambda: found.append(stream.arrivals()) or sum(found))
    assert sum(found) == 1
    assert stream.arrivals() == 0
    node.destroy_publisher(first)
    node.create_publisher(String, "words", qos.chunk())
    spin(node, lambda: found.append(stream.arrivals()) or sum(found) > 1)
    assert sum(found) == 2
