# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``ros2 bag play`` as each distribution understands it. No rclpy here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

CLOCK_RATE = "200"
"""Hz of /clock where it cannot follow the messages themselves."""


def play_command(
    bag: str, rate: str, topics: Sequence[str], environment: Mapping[str, str] = os.environ
) -> list[str]:
    """The command that plays some topics of a bag and its time. rate: times real time.

    Since Iron, /clock is set by each message before it is sent; Humble's has a rate alone.
    """
    humble = environment.get("ROS_DISTRO") == "humble"
    clock = ["--clock", CLOCK_RATE] if humble else ["--clock-topics-all"]
    return ["ros2", "bag", "play", bag, "--rate", rate, *clock, "--topics", *topics]
