# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A run beside another system's is no clean run."""

import time

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.context import Context

from phyai_ros import robots
from phyai_ros.nodes import outlets
from phyai_ros.nodes.rivals import HEARD
from phyai_ros.tools import recorder


@pytest.fixture
def heard():
    """heard(counts) -> the recording after handoff_node has said so often who publishes."""
    context = Context()
    rclpy.init(context=context, args=[], domain_id=55)
    node = rclpy.create_node("listener", context=context)
    ways = outlets.ways(robots.load("ur10e"))
    recording = recorder.Recorder(node, {}, ways, ())

    def hear(count: int, commands: str = "none"):
        values = [KeyValue(key=ways[0].topic, value=str(count))]
        values.append(KeyValue(key=HEARD, value=commands))
        status = DiagnosticStatus(name="handoff_node: publishers", values=values)
        recording._on_diagnostics(DiagnosticArray(status=[status]))
        return recording.recording.shared, ways[0].topic

    yield hear
    node.destroy_node()
    context.try_shutdown()


def test_a_second_publisher_that_stays_is_told(heard, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now)
    assert heard(2)[0] == ()
    now += recorder.RIVAL_AFTER + 1.0
    shared, topic = heard(2)
    assert shared == (topic,)


def test_one_that_was_heard_is_told_at_once(heard):
    assert heard(2)[0] == ()
    shared, topic = heard(2, "/other sends commands too")
    assert shared == (topic,)


def test_one_that_was_started_again_is_none(heard, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now)
    for _ in range(3):
        heard(2)
        now += recorder.RIVAL_AFTER - 1.0
        assert heard(2)[0] == ()
        heard(1)
        now += 1.0
