# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Quality of service, one function a role; both ends of a topic take it from here."""

from __future__ import annotations

from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
)


def _profile(
    depth: int,
    reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=reliability,
        durability=durability,
    )


def camera() -> QoSProfile:
    """Newest image wins; matches reliable and best-effort publishers alike."""
    return _profile(1, ReliabilityPolicy.BEST_EFFORT)


def joint_states() -> QoSProfile:
    """Best effort, deep enough that two publishers and a burst lose nothing."""
    return _profile(10, ReliabilityPolicy.BEST_EFFORT)


def command() -> QoSProfile:
    """Reliable, newest wins: ros2_controllers' forward controllers subscribe reliably."""
    return _profile(1)


def request() -> QoSProfile:
    """Reliable, newest wins: an older request has no use once a newer one exists."""
    return _profile(1)


def chunk() -> QoSProfile:
    return _profile(1)


def handoff_state() -> QoSProfile:
    return _profile(10)


def instruction() -> QoSProfile:
    """Transient local: a node that starts later still learns the task."""
    return _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def robot_status() -> QoSProfile:
    """Transient local: drivers say a mode once, when it changes."""
    return _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def policy_handoff() -> QoSProfile:
    """Transient local: the policy says it once."""
    return _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def episode() -> QoSProfile:
    return _profile(10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def overlay() -> QoSProfile:
    """Reliable, newest wins: what shows pictures may ask for either."""
    return _profile(1)


def clock() -> QoSProfile:
    """Reliable, newest wins; rclpy's time source subscribes with best effort, which that serves."""
    return _profile(1)


def diagnostics() -> QoSProfile:
    """What diagnostic_updater publishes with."""
    return _profile(10)


def incompatibility(
    offered_reliability: ReliabilityPolicy,
    offered_durability: DurabilityPolicy,
    wanted: QoSProfile,
) -> str | None:
    """Why a publisher's offer does not satisfy ``wanted``, naming the policy; None if it does.

    Source of the rules: DDS 1.4, section 2.2.3, request against offer.
    """
    if (
        wanted.reliability == ReliabilityPolicy.RELIABLE
        and offered_reliability == ReliabilityPolicy.BEST_EFFORT
    ):
        return "reliability: offered BEST_EFFORT, wanted RELIABLE"
    if (
        wanted.durability == DurabilityPolicy.TRANSIENT_LOCAL
        and offered_durability == DurabilityPolicy.VOLATILE
    ):
        return "durability: offered VOLATILE, wanted TRANSIENT_LOCAL"
    return None
