# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A fault of messages -> what it does to each stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phyai_ros.tools.soaking.faults import cameras, joints, messages, stamps
from phyai_ros.tools.soaking.faults.messages import Tamper

KINDS = (
    "camera_dropped",
    "camera_delayed",
    "camera_frozen",
    "camera_corrupted",
    "joints_silent",
    "joint_missing",
    "joint_not_a_number",
    "stamps_jump",
    "clock_jump",
)
"""Those that ``tamper`` knows."""


JOINTS, CLOCK = "joint states", "clock"
"""Streams that are no camera's."""


def tamper(kind: str, parameters: Mapping[str, Any], stream: str) -> Tamper | None:
    """What a fault does to one stream, None: nothing. stream: a camera's role, JOINTS or CLOCK."""
    if kind.startswith("camera_"):
        return _camera(kind, parameters) if stream == parameters["camera"] else None
    if kind == "clock_jump" or (kind == "stamps_jump" and stream != CLOCK):
        return stamps.Shifted(parameters["seconds"])
    if stream != JOINTS or kind == "stamps_jump":
        return None
    if kind == "joints_silent":
        return messages.dropped
    if kind == "joint_missing":
        return joints.Missing(parameters["joint"])
    if kind == "joint_not_a_number":
        return joints.NotANumber(parameters["joint"])
    raise ValueError(f"{kind!r} is no fault of messages: expected one of {KINDS}")


def _camera(kind: str, parameters: Mapping[str, Any]) -> Tamper:
    if kind == "camera_dropped":
        return messages.dropped
    if kind == "camera_delayed":
        return messages.Delayed(parameters["seconds"])
    if kind == "camera_frozen":
        return cameras.FROZEN[parameters["what"]]()
    if kind == "camera_corrupted":
        return cameras.CORRUPTED[parameters["what"]]
    raise ValueError(f"{kind!r} is no fault of a camera: expected one of {KINDS}")
