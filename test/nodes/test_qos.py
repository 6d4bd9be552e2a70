# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Roles and the rules of compatibility; the middleware itself is the judge of the rules."""

from __future__ import annotations

import itertools

import pytest
import rclpy.qos
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from phyai_ros.nodes import qos

RELIABILITY = (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
DURABILITY = (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL)
PAIRS = list(itertools.product(RELIABILITY, DURABILITY))


@pytest.mark.parametrize(
    ("role", "depth", "reliability"),
    [
        (qos.camera, 1, ReliabilityPolicy.BEST_EFFORT),
        (qos.joint_states, 10, ReliabilityPolicy.BEST_EFFORT),
        (qos.command, 1, ReliabilityPolicy.RELIABLE),
        (qos.request, 1, ReliabilityPolicy.RELIABLE),
        (qos.chunk, 1, ReliabilityPolicy.RELIABLE),
        (qos.handoff_state, 10, ReliabilityPolicy.RELIABLE),
        (qos.instruction, 1, ReliabilityPolicy.RELIABLE),
    ],
)
def test_roles_are_those_of_the_architecture(role, depth, reliability):
    assert (role().depth, role().reliability) == (depth, reliability)


@pytest.mark.parametrize("offer", PAIRS)
@pytest.mark.parametrize("want", PAIRS)
def test_rules_agree_with_the_middleware(offer, want):
    offered = QoSProfile(depth=1, reliability=offer[0], durability=offer[1])
    wanted = QoSProfile(depth=1, reliability=want[0], durability=want[1])
    verdict, reason = rclpy.qos.qos_check_compatible(offered, wanted)
    ours = qos.incompatibility(*offer, wanted)
    assert (ours is not None) == (verdict == rclpy.qos.QoSCompatibility.ERROR), reason
