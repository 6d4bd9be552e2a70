# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``ros2 launch`` with a launch file of this package, as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
DOMAIN = "98"
PATIENCE = 240.0


@pytest.fixture
def launch():
    """launch(file, *words) -> the finished process. Skips where ros2launch is not installed."""
    pytest.importorskip(
        "ros2launch",
        reason="ros2launch is not installed: it is part of a ROS 2 installation, not of the wheels",
    )

    def run(file, *words):
        code = "import sys; from ros2cli.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "launch", str(LAUNCH / file), *words]
        environment = {**os.environ, "ROS_DOMAIN_ID": DOMAIN}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env=environment
        )

    return run
