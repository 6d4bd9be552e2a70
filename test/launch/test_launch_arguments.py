# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``ros2 launch`` with policy.launch.py: what it tells of its arguments, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "ros2launch",
    reason="ros2launch is not installed: it is part of a ROS 2 installation, not of the wheels",
)

from phyai_ros.nodes import graph

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch" / "policy.launch.py"


def launch(*words):
    code = "import sys; from ros2cli.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "launch", str(LAUNCH_FILE), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_show_args_describes_every_argument():
    result = launch("--show-args")
    assert result.returncode == 0, result.stderr
    for argument in graph.ARGUMENTS:
        assert f"'{argument.name}':" in result.stdout
        assert argument.description in result.stdout
    assert "Valid choices are: ['cpu', 'cuda', 'auto']" in result.stdout


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("robot:=r2d2", "ur10e"),
        ("model:=nothing", "gr00t"),
        ("device:=tpu", "cuda"),
        ("seed:=x", "a whole number from 0"),
    ],
)
def test_an_unknown_value_is_answered_with_what_exists(word, named):
    result = launch(word)
    assert result.returncode != 0
    assert named in result.stdout + result.stderr
