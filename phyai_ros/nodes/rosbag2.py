# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What plays a bag in a launch: ``ros2 bag play`` as each distribution understands it, and this
package's own player where rosbag2 is not installed. No rclpy here."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

CLOCK_RATE = "200"
"""Hz of /clock where it cannot follow the messages themselves."""


def installed() -> bool:
    """Whether there is a ``ros2 bag``."""
    return importlib.util.find_spec("ros2bag") is not None


def own_play_command(bag: str, rate: str) -> list[str]:
    """The command that plays a bag's sensors, its instruction and its time without rosbag2."""
    return [sys.executable, "-m", "phyai_ros.tools", "play", bag, "--rate", rate]


def play_command(
    bag: str, rate: str, topics: Sequence[str], environment: Mapping[str, str] = os.environ
) -> list[str]:
    """The command that plays some topics of a bag and its time. rate: times real time.

    Since Iron, /clock is set by each message before it is sent; Humble's has a rate alone.
    """
    humble = environment.get("ROS_DISTRO") == "humble"
    clock = ["--clock", CLOCK_RATE] if humble else ["--clock-topics-all"]
    return ["ros2", "bag", "play", bag, "--rate", rate, *clock, "--topics", *topics]
