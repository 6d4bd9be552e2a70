# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""sensor_msgs/CameraInfo -> where a point in front of a camera lies in its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from phyai_ros.nodes.convert import MessageError

_PLUMB_BOB = ("", "plumb_bob", "rational_polynomial", "thin_prism")
_FISHEYE = ("equidistant", "fisheye")
NEAREST = 0.01
"""Points nearer to the camera's plane than this, m, or behind it, are not in the picture."""


@dataclass(frozen=True)
class PinholeCamera:
    """matrix: [3, 3], pixels; pixel (0, 0) has its centre at (0, 0). distortion: OpenCV's order.
    size: (width, height) that they are for."""

    matrix: np.ndarray
    distortion: np.ndarray
    size: tuple[int, int]
    fisheye: bool = False

    def project(self, points: np.ndarray) -> np.ndarray:
        """Points [n, 3] in the optical frame, metres -> pixels [n, 2]; NaN for those that are not
        in front of the camera."""
        pixels = np.full((len(points), 2), np.nan)
        front = points[:, 2] > NEAREST
        if front.any():
            project = cv2.fisheye.projectPoints if self.fisheye else cv2.projectPoints
            shaped, still = points[front].reshape(-1, 1, 3), np.zeros(3)
            found, _ = project(shaped, still, still, self.matrix, self.distortion)
            pixels[front] = np.asarray(found).reshape(-1, 2)
        return pixels


def camera_from_info(info: Any, image_topic: str) -> PinholeCamera:
    """Of a sensor_msgs/CameraInfo. A topic whose name says ``image_rect`` carries pictures whose
    distortion is gone: P holds for them. Raises MessageError for an uncalibrated camera and for a
    distortion model that is not known here."""
    size = (int(info.width), int(info.height))
    if info.k[0] <= 0.0 or info.k[4] <= 0.0 or 0 in size:
        raise MessageError("camera_info: not calibrated (focal length or size is 0)")
    if image_topic.removesuffix("/compressed").rpartition("/")[2].startswith("image_rect"):
        matrix = np.array(info.p, np.float64).reshape(3, 4)[:, :3]
        return PinholeCamera(matrix, np.zeros(5), size)
    model = info.distortion_model
    if model not in (*_PLUMB_BOB, *_FISHEYE):
        known = ", ".join(name for name in (*_PLUMB_BOB, *_FISHEYE) if name)
        raise MessageError(f"camera_info: distortion_model: expected {known}, found {model!r}")
    fisheye = model in _FISHEYE
    distortion = np.array(info.d, np.float64)
    allowed = (4,) if fisheye else (0, 4, 5, 8, 12, 14)
    if len(distortion) not in allowed:
        raise MessageError(
            f"camera_info: d of {model or 'no model'}: expected {' or '.join(map(str, allowed))} "
            f"values, found {len(distortion)}"
        )
    if not len(distortion):
        distortion = np.zeros(5)
    return PinholeCamera(np.array(info.k, np.float64).reshape(3, 3), distortion, size, fisheye)
