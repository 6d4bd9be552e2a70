# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Quality of service between rclpy and a bag."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)

# What a publisher without one says (rmw's "infinite" duration), as rosbag2 writes it.
_NEVER = QosTime(9223372036, 854775807)
_DEPTH = 10
"""Of a topic whose publishers told none."""


def to_rosbags(offered: QoSProfile) -> Qos:
    """An rclpy profile -> what a bag keeps of it. The graph does not tell history and depth of
    another node's publisher; those are written as unknown, as rosbag2 does."""
    return Qos(
        QosHistory(int(offered.history) if int(offered.history) in (1, 2) else 3),
        int(offered.depth),
        QosReliability(int(offered.reliability)),
        QosDurability(int(offered.durability)),
        _NEVER,
        _NEVER,
        QosLiveliness.AUTOMATIC,
        _NEVER,
        False,
    )


def from_rosbags(profiles: Any) -> QoSProfile:
    """The profile with which a recorded topic is published again: reliable and lasting if any of
    its publishers was, which serves every subscriber that they served."""
    reliable = any(q.reliability == QosReliability.RELIABLE for q in profiles) or not profiles
    lasting = any(q.durability == QosDurability.TRANSIENT_LOCAL for q in profiles)
    known = [q.depth for q in profiles if q.history == QosHistory.KEEP_LAST and q.depth > 0]
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=max(known, default=_DEPTH),
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if lasting else DurabilityPolicy.VOLATILE,
    )
