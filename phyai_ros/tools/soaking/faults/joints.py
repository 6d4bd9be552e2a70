# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Faults of serialised sensor_msgs/JointState."""

from __future__ import annotations

import math

from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from phyai_ros.tools.soaking.faults.messages import Sent


class Missing:
    """One joint is in no message."""

    def __init__(self, joint: str) -> None:
        self._joint = joint

    def __call__(self, data: bytes, now: float) -> Sent:
        message = deserialize_message(data, JointState)
        kept = [i for i, name in enumerate(message.name) if name != self._joint]
        message.name = [message.name[i] for i in kept]
        for field in ("position", "velocity", "effort"):
            values = getattr(message, field)
            if len(values):
                setattr(message, field, [values[i] for i in kept])
        return [(now, serialize_message(message))]


class NotANumber:
    """One joint's position is NaN, as of an encoder that fails."""

    def __init__(self, joint: str) -> None:
        self._joint = joint

    def __call__(self, data: bytes, now: float) -> Sent:
        message = deserialize_message(data, JointState)
        message.position[list(message.name).index(self._joint)] = math.nan
        return [(now, serialize_message(message))]
