# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Draws a plan into a camera's picture. No ROS here."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from phyai_ros.nodes.overlay_camera import PinholeCamera
from phyai_ros.nodes.overlay_plan import Plan
from phyai_ros.robots.geometry import Geometry

_SHIFT = 4  # OpenCV draws between pixels in sixteenths
_PAST = (150, 150, 150)
_NEXT = np.array((255, 214, 0))
_LAST = np.array((235, 0, 160))
_TOOL = (255, 255, 255)
_EDGE = (20, 20, 20)
_FAR = 16_384.0  # pixels: a point near the camera's plane may lie anywhere


def draw(
    pixels: np.ndarray,
    camera: PinholeCamera,
    role: str,
    geometry: Geometry,
    plan: Plan,
    scale: int = 1,
) -> np.ndarray:
    """A new picture uint8 [height * scale, width * scale, 3], RGB: rows to come from yellow (next)
    to magenta (last), rows past in grey, the measured tool as a white cross, and what it is in
    words below. pixels: [height, width, 3], of the camera's size."""
    height, width = pixels.shape[:2]
    picture = cv2.resize(
        np.ascontiguousarray(pixels),
        (width * scale, height * scale),
        interpolation=cv2.INTER_LINEAR,
    )
    into = np.linalg.inv(geometry.camera(role, plan.measured))

    def project(points: np.ndarray) -> np.ndarray:
        seen = camera.project(points @ into[:3, :3].T + into[:3, 3])
        return (seen + 0.5) * scale - 0.5  # pixel centres lie at whole numbers

    for tool in geometry.tools:
        _cross(picture, project(geometry.tool_points(tool, plan.measured)[None])[0], scale)
        _path(picture, project(geometry.tool_points(tool, plan.rows)), plan.current, scale)
    _words(picture, describe(plan), scale)
    return picture


def describe(plan: Plan) -> list[str]:
    """What the picture shows, in words."""
    if plan.tick is None:
        return ["no handoff state yet"]
    lines = [plan.tick.state.name]
    if len(plan.rows):
        row = min(plan.current + 1, len(plan.rows))
        lines[0] += f"  row {row} of {len(plan.rows)}, request {plan.tick.request_id}"
    if plan.instruction:
        # OpenCV's letters are ASCII; a question mark says that there was more.
        lines.append(plan.instruction.encode("ascii", "replace").decode())
    return lines


def _path(picture: np.ndarray, points: np.ndarray, current: int, scale: int) -> None:
    last = max(len(points) - 1, 1)
    colours = [
        _PAST if row < current else tuple(int(c) for c in _NEXT + (_LAST - _NEXT) * row / last)
        for row in range(len(points))
    ]
    for row in range(len(points) - 1):
        ends = points[row : row + 2]
        if _drawable(ends):
            start, end = (_fixed(point) for point in ends)
            cv2.line(picture, start, end, _EDGE, scale + 2, cv2.LINE_AA, _SHIFT)
            cv2.line(picture, start, end, colours[row + 1], scale, cv2.LINE_AA, _SHIFT)
    for row, point in enumerate(points):
        if _drawable(point):
            radius = int((2.6 if row == current else 1.3) * scale * 2**_SHIFT)
            cv2.circle(
                picture, _fixed(point), radius, colours[row], cv2.FILLED, cv2.LINE_AA, _SHIFT
            )


def _cross(picture: np.ndarray, point: np.ndarray, scale: int) -> None:
    if not _drawable(point):
        return
    x, y = (round(float(v)) for v in point)
    for colour, thick in ((_EDGE, scale + 2), (_TOOL, scale)):
        cv2.drawMarker(picture, (x, y), colour, cv2.MARKER_CROSS, 7 * scale, thick, cv2.LINE_AA)


def _words(picture: np.ndarray, lines: Sequence[str], scale: int) -> None:
    step = 12 * scale
    strip = picture[-step * len(lines) - 4 * scale :]
    np.copyto(strip, strip // 4)
    for number, line in enumerate(lines):
        place = (4 * scale, picture.shape[0] - step * (len(lines) - 1 - number) - 4 * scale)
        font, size = cv2.FONT_HERSHEY_SIMPLEX, 0.36 * scale
        cv2.putText(picture, line, place, font, size, _TOOL, 1, cv2.LINE_AA)


def _drawable(points: np.ndarray) -> bool:
    return bool(np.isfinite(points).all() and np.abs(points).max() < _FAR)


def _fixed(point: np.ndarray) -> tuple[int, int]:
    x, y = (round(float(v) * 2**_SHIFT) for v in point)
    return x, y
