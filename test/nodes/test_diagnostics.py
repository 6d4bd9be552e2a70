# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Percentiles, counts and messages of /diagnostics."""

from __future__ import annotations

import math
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor

from phyai_ros.nodes.diagnostics import OK, WARN, Publisher, Reasons, Status, Window


def test_a_window_forgets_and_tells_p50_and_p99():
    window = Window(100)
    assert all(math.isnan(value) for value in window.percentiles())
    for value in [1e9, *range(101)]:  # the outlier and 0 are pushed out
        window.add(float(value))
    p50, p99 = window.percentiles()
    assert p50 == 50.5
    assert 99.0 <= p99 <= 100.0


def test_reasons_read_as_a_sentence():
    reasons = Reasons()
    assert str(reasons) == "none"
    for reason in ("too_old wrist", "frozen scene", "too_old wrist"):
        reasons.add(reason)
    assert str(reasons) == "frozen scene: 1, too_old wrist: 2"
    assert reasons.total == 3


def test_statuses_reach_the_topic_under_the_nodes_name(ros):
    node = rclpy.create_node("some_node", context=ros)
    got: list[DiagnosticArray] = []
    node.create_subscription(DiagnosticArray, "/diagnostics", got.append, 10)
    statuses = [
        Status("camera scene", WARN, "no publisher", {"age": float("nan"), "received": 3}),
        Status("timer", OK, "ok", {"jitter p99 s": 0.00012345678}),
    ]
    publisher = Publisher(node, [lambda: statuses])
    executor = SingleThreadedExecutor(context=ros)
    executor.add_node(node)
    while not got:
        executor.spin_once(timeout_sec=1)
    camera, timer = got[0].status
    assert (camera.name, camera.level, camera.message) == (
        "some_node: camera scene",
        WARN,
        "no publisher",
    )
    assert {v.key: v.value for v in camera.values} == {"age": "nan", "received": "3"}
    assert timer.values[0].value == "0.000123457"
    publisher.destroy()
    node.destroy_node()


def test_a_status_is_told_when_it_is_published_and_not_when_it_is_only_looked_at(ros):
    """A trouble of a moment is told once: a look that published nothing was taken for it."""
    node = rclpy.create_node("some_node", context=ros)
    told = []
    publisher = Publisher(node, [lambda: [Status("part", WARN, "x", told=lambda: told.append(1))]])
    publisher.publish()
    assert len(told) == 1
    publisher.look()  # nothing has changed
    assert len(told) == 1
    publisher.destroy()
    node.destroy_node()


def test_two_arms_in_namespaces_do_not_overwrite_each_other(ros):
    """/diagnostics is one topic for all, and who reads it keeps the newest of each name."""
    nodes = [rclpy.create_node("handoff_node", context=ros, namespace=n) for n in ("left", "right")]
    got: list[DiagnosticArray] = []
    nodes[0].create_subscription(DiagnosticArray, "/diagnostics", got.append, 10)
    publishers = [Publisher(node, [lambda: [Status("handoff", OK, "ok")]]) for node in nodes]
    executor = SingleThreadedExecutor(context=ros)
    for node in nodes:
        executor.add_node(node)
    end = time.monotonic() + 20
    while len({m.status[0].name for m in got}) < 2 and time.monotonic() < end and len(got) < 6:
        executor.spin_once(timeout_sec=0.1)
    assert {message.status[0].name for message in got} == {
        "left/handoff_node: handoff",
        "right/handoff_node: handoff",
    }
    for publisher, node in zip(publishers, nodes, strict=True):
        publisher.destroy()
        node.destroy_node()
