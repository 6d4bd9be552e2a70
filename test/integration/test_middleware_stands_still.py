# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A node's process whose middleware has stopped ends by a signal, for which it is started again.

The deadlock itself cannot be had on demand: the event thread, and it alone, is stopped by ptrace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phyai_ros.nodes.middleware_watch import event_threads
from phyai_ros.nodes.restarts import Restarts

DOMAIN = 46
SEIZE, INTERRUPT, ANY_CHILD = 0x4206, 0x4207, 0x40000000
PATIENCE = 90.0

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request: int, thread: int) -> None:
    if libc.ptrace(request, thread, None, None) != 0:
        pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")


def buried(process: subprocess.Popen[bytes], thread: int, seconds: float) -> bool:
    """Whether the process ends in time; who traces a thread of it has to wait for that one too."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(thread, os.WNOHANG | ANY_CHILD)
        time.sleep(0.1)
    return process.poll() is not None


@pytest.mark.slow
def test_a_node_that_hears_nothing_any_more_ends_and_comes_back(tmp_path):
    log = tmp_path / "log"
    words = ["--ros-args", "-p", "robot:=ur10e"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "phyai_ros.nodes.handoff_node", *words],
            env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    thread = 0
    try:
        tasks = Path(f"/proc/{process.pid}/task")
        end = time.monotonic() + PATIENCE
        while not any(steps > 50 for _, steps in event_threads(tasks).values()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, "no event thread"
            time.sleep(0.2)
        time.sleep(14.0)  # its rhythm is known after some looks
        (thread,) = map(int, event_threads(tasks))
        ptrace(SEIZE, thread)
        ptrace(INTERRUPT, thread)
        ended = buried(process, thread, PATIENCE)
    finally:
        process.kill()
        if thread:
            buried(process, thread, 10.0)
        process.wait()
    assert ended, log.read_text()
    assert process.returncode == -signal.SIGABRT
    assert Restarts().after("handoff_node", process.returncode) is not None
    assert "nothing is received any more" in log.read_text()
