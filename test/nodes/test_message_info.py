# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Callbacks with a message's times, on distributions that tell them and on Humble, which does
not."""

import ast
import inspect
import re
import time
from pathlib import Path

import pytest
from rclpy.subscription import Subscription

from phyai_ros.nodes import message_info
from phyai_ros.nodes.message_info import informed

ROOT = Path(message_info.__file__).parents[1]
NEEDS_MORE = ("soaking/watcher.py", "nodes/message_info.py")
"""The soak tells publishers apart by their ids, which Iron brought."""
TIMES = re.compile(r"source_timestamp|received_timestamp|message_info import")
SOURCES = [path for path in sorted(ROOT.rglob("*.py")) if not str(path).endswith(NEEDS_MORE)]


def test_this_distribution_tells_and_gives_it_on():
    assert hasattr(Subscription, "CallbackType") == message_info.TOLD

    def callback(message, info):
        raise AssertionError

    assert informed(callback, told=True) is callback


def test_humble_calls_with_the_message_alone():
    got = []
    deliver = informed(lambda message, info: got.append((message, info)), told=False)
    inspect.signature(deliver).bind(object())
    with pytest.raises(TypeError):
        inspect.signature(deliver).bind(object(), object())
    before = time.time_ns()
    deliver("here")
    ((message, info),) = got
    assert message == "here"
    assert before <= info["source_timestamp"] == info["received_timestamp"] <= time.time_ns()


def test_no_subscription_takes_the_times_past_this_module():
    """Whoever names them gets them through ``informed``: Humble's rclpy would fail at the call."""
    users = [path for path in SOURCES if TIMES.search(path.read_text())]
    assert len(users) > 1
    for path in users:
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if is_name(node)}
        assert "informed" in names, f"{path}: subscribe with informed(callback)"


def is_name(node):
    return isinstance(node, ast.Name)
