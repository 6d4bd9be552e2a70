# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Names of topics that follow from others. No rclpy here."""

from __future__ import annotations

OVERLAY = "phyai/overlay"
"""The picture of a camera with the plan drawn in is this and the camera's role."""
BOOL = "std_msgs/msg/Bool"
"""The type of a robot's ``ready`` topics that the simulator can stand in for."""


def info_topic(image_topic: str) -> str:
    """Where image_transport's convention puts the CameraInfo of an image topic: beside it."""
    return image_topic.removesuffix("/compressed").rpartition("/")[0] + "/camera_info"
