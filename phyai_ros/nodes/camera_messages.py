# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera messages that this package sends: pictures, and the calibration beside them."""

from __future__ import annotations

from array import array

import numpy as np
from sensor_msgs.msg import CameraInfo, Image

from phyai_ros.nodes import convert


def optical_frame(role: str) -> str:
    """Name of a camera's frame: x right, y down, z into the picture (REP 103)."""
    return f"{role}_camera_optical_frame"


def rgb_image(stamp_ns: int, role: str, pixels: np.ndarray) -> Image:
    """pixels: uint8 [height, width, 3], RGB."""
    message = Image(
        height=pixels.shape[0],
        width=pixels.shape[1],
        encoding="rgb8",
        step=pixels.shape[1] * 3,
        # An array.array is taken over as it is; rclpy checks any other sequence byte by byte.
        data=array("B", pixels.tobytes()),
    )
    message.header.frame_id = optical_frame(role)
    convert.set_time(message.header.stamp, stamp_ns)
    return message


def pinhole_info(role: str, width: int, height: int, fovy: float) -> CameraInfo:
    """CameraInfo, unstamped, of an ideal camera with square pixels. fovy: the whole picture's
    height, degrees. ROS and OpenCV put a pixel's centre at whole numbers."""
    focal = height / 2 / np.tan(np.deg2rad(fovy) / 2)
    x, y = (width - 1) / 2, (height - 1) / 2
    info = CameraInfo(width=width, height=height, distortion_model="plumb_bob", d=[0.0] * 5)
    info.header.frame_id = optical_frame(role)
    info.k = [focal, 0.0, x, 0.0, focal, y, 0.0, 0.0, 1.0]
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [focal, 0.0, x, 0.0, 0.0, focal, y, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info
