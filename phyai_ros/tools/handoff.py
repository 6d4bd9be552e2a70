# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros handoff``: hold the arm, let it go on, reset the handoff, where there is no ros2."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

from phyai_ros.tools import console
from phyai_ros.tools.option_types import given

WORKS = {
    "hold": "brake within the limits and stand, until resume",
    "resume": "leave a hold: the arm goes on with what is seen from now on",
    "reset": "leave a hold and a fault, and forget the last command",
}
PATIENCE = 5.0
"""Seconds for finding the node, and again for its answer."""
_EPILOG = """examples:
  phyai-ros handoff hold
  phyai-ros handoff resume --node /left/handoff_node

Run it in a shell set up as the nodes' are (ROS_DOMAIN_ID, DDS profile). It starts a process and
finds the node first, a second or more: it is no emergency stop.
exit status: 0 done, 1 not done, 2 wrong usage
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="phyai-ros handoff",
        description="Call a service of the handoff node:\n"
        + "".join(f"  {name:<8}{text}\n" for name, text in WORKS.items()),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("work", choices=list(WORKS), help="what it shall do")
    parser.add_argument(
        "--node", type=given, default="/handoff_node", help="its full name (%(default)s)"
    )
    options = parser.parse_args(list(words))
    try:
        done, text = call(f"{options.node.rstrip('/')}/{options.work}")
    except ValueError as error:
        parser.error(f"--node: {error}")
    if not done:
        console.fail(text)
        return 1
    print(text)
    return 0


def call(service: str) -> tuple[bool, str]:
    """Call a std_srvs/Trigger by its full name: whether it was done, and its answer or why there is
    none. Raises ValueError for what is no name of a service."""
    from rclpy.exceptions import NameValidationException
    from std_srvs.srv import Trigger

    from phyai_ros.nodes.participant import Participant

    with Participant(f"phyai_handoff_call_{os.getpid()}") as here:
        try:
            client = here.node.create_client(Trigger, service)
        except NameValidationException as error:
            text = (
                f"expected a node's full name as /handoff_node, found {service!r} for its service"
            )
            raise ValueError(text) from error
        end = time.monotonic() + PATIENCE
        while not client.service_is_ready():
            if time.monotonic() > end:
                where = os.environ.get("ROS_DOMAIN_ID") or "0"
                return False, (
                    f"{service} is not there after {PATIENCE:g} s in ROS domain {where}: is the "
                    "node running, in this domain and under this name? NOTHING was done"
                )
            here.spin(0.02)
        future = client.call_async(Trigger.Request())
        here.executor.spin_until_future_complete(future, timeout_sec=PATIENCE)
        if not future.done():
            return False, f"{service} did not answer in {PATIENCE:g} s: watch the arm"
        answer = future.result()
        return bool(answer.success), f"{service}: {answer.message}"
