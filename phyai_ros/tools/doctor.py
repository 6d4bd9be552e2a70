# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros doctor``: listen to a running system for some seconds, and say why nothing moves."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phyai_ros import robots
from phyai_ros.tools import console

if TYPE_CHECKING:
    from phyai_ros.tools.doctoring.report import Report

_EPILOG = """examples:
  phyai-ros doctor --robot ur10e
  phyai-ros doctor --robot my_arm.yaml --seconds 10
  phyai-ros doctor --json | jq .verdict

Sends nothing to the robot. Run it in a shell set up as the nodes' are (ROS_DOMAIN_ID, DDS profile).
exit status: 0 nothing wrong, 1 something is, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros doctor",
        description="Say, per stream, what is wrong in a running system and what to change.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--robot", default="ur10e", help="name or YAML file (%(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="how long to listen (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(list(words))
    if not 0.5 <= options.seconds <= 3600.0:
        parser.error(f"--seconds: expected 0.5 to 3600, found {options.seconds:g}")
    try:
        robot = robots.load(options.robot)
    except robots.RobotError as error:
        console.fail(str(error))
        return 2
    if console.interactive():
        console.say("info", f"listening for {options.seconds:g} s")
    try:
        report = examine(robot, options.seconds)
    except ValueError as error:  # a message package that is not installed
        console.fail(str(error))
        return 2
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        from phyai_ros.tools.doctoring.report import show

        show(report, console.results(140))
    return report.status


def examine(robot: robots.Robot, seconds: float) -> Report:
    """Listen for ``seconds``. Raises ValueError for a message type that is not installed."""
    from rclpy.utilities import get_rmw_implementation_identifier

    from phyai_ros.nodes.participant import Participant
    from phyai_ros.tools.doctoring import report
    from phyai_ros.tools.doctoring.listen import Listener

    with Participant("phyai_doctor") as here:
        listener = Listener(here.node, robot)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            here.spin(min(left, 0.2))
            listener.ask()
        return report.build(robot, listener.finish(), get_rmw_implementation_identifier())
