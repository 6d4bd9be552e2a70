# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether another system runs in the ROS domain that a new one is about to start in."""

from __future__ import annotations

import os
import time

from rclpy.node import Node

from phyai_ros.msg import HandoffState
from phyai_ros.nodes import endpoints, qos
from phyai_ros.nodes.participant import Participant

TOPIC = "phyai/handoff_state"
LOOK = 2.5
"""Seconds for which others are looked for: discovery takes a part of it, beside a system that keeps
every core busy more than one."""
NAMED = 1.0
"""Seconds that the name of one that is heard may take: a publisher is known before its node."""
LISTEN = 2.0
"""Seconds that a handoff that is listed has to say something: it says its state every tick, and one
that was killed is listed for a while, but silent."""


def _names(node: Node, topic: str) -> list[str]:
    return sorted(set(filter(endpoints.is_named, endpoints.publishers(node, topic).values())))


def running() -> str | None:
    """The name of a handoff_node that is alive here, None where none was heard. Blocks for LOOK
    seconds, longer where one is listed."""
    heard: list[HandoffState] = []
    with Participant(f"phyai_look_{os.getpid()}", rosout=False) as here:
        subscription = here.node.create_subscription(
            HandoffState, TOPIC, heard.append, qos.handoff_state()
        )
        topic = subscription.topic_name
        begin = time.monotonic()
        while not heard:
            passed = time.monotonic() - begin
            if passed > (LOOK + LISTEN if here.node.count_publishers(topic) else LOOK):
                return None
            here.spin(0.05)
        end = time.monotonic() + NAMED
        while not (names := _names(here.node, topic)) and time.monotonic() < end:
            here.spin(0.05)
        return ", ".join(names) or "a handoff_node"
