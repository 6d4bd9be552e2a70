# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How a node's process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import atexit
from phyai_ros.nodes import handoff_node
atexit.register(print, "the interpreter's own end")
handoff_node.main()
"""

BROKEN = """
from phyai_ros.nodes import handoff_node, lifecycle


class Broken(handoff_node.HandoffNode):
    def activate(self):
        super().activate()
        self._loop.post(lambda now: 1 / 0)


lifecycle.run(Broken)
"""


TWICE = """
import os
import signal
from phyai_ros.nodes import handoff_node, lifecycle

set_handler, again = signal.signal, [signal.SIGTERM]


def late(number, handler):
    if handler is lifecycle._insist and again:  # the second comes when the first is being answered
        os.kill(os.getpid(), again.pop())
    return set_handler(number, handler)


class Told(handoff_node.HandoffNode):
    def teardown(self):
        print("brought to rest", flush=True)
        super().teardown()


signal.signal = late
lifecycle.run(Told)
"""


STUCK = """
import time
from phyai_ros.nodes import handoff_node, lifecycle


class Stuck(handoff_node.HandoffNode):
    def activate(self):
        super().activate()
        print("active", flush=True)

    def teardown(self):
        print("stopping", flush=True)
        while True:
            time.sleep(0.1)


lifecycle.run(Stuck)
"""


def test_who_insists_ends_a_node_whose_stop_hangs():
    node = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        env={**os.environ, "ROS_DOMAIN_ID": "63"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for word in ("active", "stopping"):
            assert any(word in line for line in node.stdout)
            node.send_signal(signal.SIGINT)
        for _ in range(3):  # one by one: equal signals that wait are one
            assert node.poll() is None
            time.sleep(0.5)
            node.send_signal(signal.SIGINT)
        assert node.wait(30) == 128 + signal.SIGINT
    finally:
        node.kill()
        node.wait()


def test_a_second_signal_does_not_cut_short_what_the_first_began():
    """As Ctrl-C in a terminal with a launch: once from the terminal, once from the launch."""
    process = subprocess.Popen(
        [sys.executable, "-c", TWICE, "--ros-args", "-p", "dry_run:=true"],
        env={**os.environ, "ROS_DOMAIN_ID": "63"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    while "WAITING" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said + rest
    assert "brought to rest" in rest
    assert "Traceback" not in rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_is_told_to_stop_does_not_wait_for_the_interpreters_own_end(number):
    # With a policy loaded that takes seconds, in which whoever stops the graph has to kill it.
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "--ros-args", "-p", "dry_run:=true"],
        env={**os.environ, "ROS_DOMAIN_ID": "63"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    while "WAITING" not in said:  # it is active
        line = process.stdout.readline()
        assert line, said
        said += line
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said + rest
    assert "the interpreter's own end" not in rest


def test_a_node_that_cannot_be_configured_ends_with_status_1_and_says_why():
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "--ros-args", "-p", "robot:=r2d2"],
        env={**os.environ, "ROS_DOMAIN_ID": "63"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "r2d2" in ended.stderr


def test_a_control_loop_that_fails_ends_the_process_with_status_1_and_says_why():
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN],
        env={**os.environ, "ROS_DOMAIN_ID": "63"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "the control loop failed, the arm is brought to rest" in ended.stderr
    assert "division by zero" in ended.stderr
