# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""When a message was sent and received, where rclpy tells that: from Iron on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.subscription import Subscription

from phyai_ros.nodes.cdr import NANOSECONDS

TOLD = hasattr(Subscription, "CallbackType")
"""Humble's subscriptions have one kind of callback, which gets the message alone."""


def informed(
    callback: Callable[[Any, Mapping[str, int]], None], told: bool = TOLD
) -> Callable[..., None]:
    """callback(message, info) as a subscription's callback. info: ``source_timestamp`` and
    ``received_timestamp``, wall clock, nanoseconds; where rclpy does not tell them, the moment of
    the call stands for both."""
    if told:
        return callback

    def deliver(message: Any) -> None:
        now = time.time_ns()
        callback(message, {"source_timestamp": now, "received_timestamp": now})

    return deliver


def sent(info: Mapping[str, int]) -> float:
    """Publication time, wall clock, s: who listens may be late to look."""
    return info["source_timestamp"] / NANOSECONDS
