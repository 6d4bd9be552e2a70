# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``ros2 launch`` with replay.launch.py: what it takes, and what it leaves to policy.launch.py."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "ros2launch",
    reason="ros2launch is not installed: it is part of a ROS 2 installation, not of the wheels",
)

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch" / "replay.launch.py"


def launch(*words):
    code = "import sys; from ros2cli.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "launch", str(LAUNCH_FILE), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_it_tells_of_the_bag_and_of_the_policys_arguments():
    result = launch("--show-args")
    assert result.returncode == 0, result.stderr
    for name in ("bag", "rate", "start_delay", "checkpoint", "precision", "handoff"):
        assert f"'{name}':" in result.stdout


def test_without_a_bag_it_says_so():
    result = launch()
    assert result.returncode != 0
    assert "bag" in result.stdout + result.stderr
