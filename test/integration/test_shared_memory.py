# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A node that ends frees its DDS shared memory; what a killed one leaves is swept."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phyai_ros.tools import shared_memory

SEGMENT = re.compile(r"/dev/shm/fastdds_[0-9a-f]{16}\b")


@pytest.fixture
def node(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "58")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    process = subprocess.Popen(
        [sys.executable, "-m", "phyai_ros.nodes.handoff_node"],
        env=dict(os.environ),
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def segments(process):
    """The segments a process maps, once it has told that it runs."""
    for line in process.stderr:
        if "WAITING" in line:
            break
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    found = {Path(path) for path in SEGMENT.findall(maps)}
    assert found
    return found


def test_a_node_that_ends_frees_its_segments(node):
    held = segments(node)
    node.send_signal(signal.SIGINT)
    assert node.wait(20) == 0
    assert not [path for path in held if path.exists()]


def test_a_killed_node_is_swept_and_a_living_one_is_not(node):
    held = segments(node)
    shared_memory.sweep()
    assert all(path.exists() for path in held), "its owner lives"
    node.kill()
    node.wait()
    end = time.monotonic() + 20
    while any(path.exists() for path in held):  # a lock ends with its process, not before
        assert time.monotonic() < end
        shared_memory.sweep()


def left_behind(folder, number, age):
    for name in (f"fastdds_{number}", f"fastdds_{number}_el"):
        (folder / name).write_bytes(b"x" * 5000)
        os.utime(folder / name, (time.time() - age,) * 2)


def test_a_process_that_starts_keeps_the_lock_that_it_has_not_locked_yet(tmp_path):
    left_behind(tmp_path, "0123456789abcdef", age=0.0)
    left_behind(tmp_path, "fedcba9876543210", age=2 * shared_memory.YOUNG)
    shared_memory.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fastdds_0123456789abcdef",
        "fastdds_0123456789abcdef_el",
    }


def test_only_segments_are_touched(tmp_path):
    for name in ("fastdds_port7400_el", "fastdds_short_el", "other", "sem.fastdds_port7400_mutex"):
        (tmp_path / name).touch()
    left_behind(tmp_path, "0123456789abcdef", age=60.0)
    assert shared_memory.sweep(tmp_path) >= 5000
    assert len(list(tmp_path.iterdir())) == 4
    assert shared_memory.sweep(tmp_path / "none") == 0
