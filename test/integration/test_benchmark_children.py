# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a benchmark starts ends with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rclpy
from rclpy.context import Context

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ENVIRONMENT = {**os.environ, "ROS_DOMAIN_ID": "64", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
BENCHMARK = """
import sys
import children
with children.python("-c", "import time; print(flush=True); time.sleep(600)") as child:
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_a_benchmark(number):
    benchmark = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK],
        env={**ENVIRONMENT, "PYTHONPATH": str(BENCHMARKS)},
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert benchmark.stdout is not None
    # Two lines, in either order: the child's id, and that the child runs under its own program.
    lines = sorted(benchmark.stdout.readline().strip() for _ in range(2))
    child = os.pidfd_open(int(lines[1]))
    benchmark.send_signal(number)
    benchmark.wait(30)
    gone, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_camera_sink_ends_when_told_to(number):
    sink = subprocess.Popen(
        [sys.executable, BENCHMARKS / "camera_sink.py", "phyai"],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
    )
    context = Context()
    rclpy.init(context=context, args=[], domain_id=int(ENVIRONMENT["ROS_DOMAIN_ID"]))
    node = rclpy.create_node("test", context=context)
    try:
        while node.count_subscribers("/joint_states") == 0:  # it waits for its first frame
            assert sink.poll() is None
            time.sleep(0.05)
        sink.send_signal(number)
        assert sink.wait(30) == -number
    finally:
        sink.kill()
        node.destroy_node()
        context.try_shutdown()
