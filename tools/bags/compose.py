# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Messages made by hand, serialised without ROS, for bags that tests and goldens are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from phyai_ros.bags import definitions
from phyai_ros.bags.writer import BagWriter

SECOND = 1_000_000_000
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
JOINTS = "sensor_msgs/msg/JointState"
STRING = "std_msgs/msg/String"
CLOCK = "rosgraph_msgs/msg/Clock"


class Composer:
    """A BagWriter that takes fields. Times are whole nanoseconds."""

    def __init__(self, writer: BagWriter) -> None:
        self.writer = writer
        self.types = definitions.own()

    def put(self, topic: str, type_: str, log_ns: int, message: Any) -> None:
        if not self.writer.has(topic):
            self.writer.add_topic(topic, type_)
        data = bytes(self.types.serialize_cdr(message, type_))
        self.writer.write(topic, log_ns, data)

    def make(self, type_: str, *fields: Any) -> Any:
        return self.types.types[type_](*fields)

    def time(self, ns: int) -> Any:
        return self.make("builtin_interfaces/msg/Time", ns // SECOND, ns % SECOND)

    def header(self, stamp_ns: int) -> Any:
        return self.make("std_msgs/msg/Header", self.time(stamp_ns), "")

    def image(
        self, stamp_ns: int, rgb: np.ndarray, encoding: str = "rgb8", padding: int = 0
    ) -> Any:
        """rgb: uint8 [height, width, 3]. padding: bytes after each row."""
        pixels = {"rgb8": rgb, "bgr8": rgb[..., ::-1], "16UC1": rgb[..., :2]}[encoding]
        rows = np.pad(pixels.reshape(len(rgb), -1), ((0, 0), (0, padding)), constant_values=255)
        height, width = rgb.shape[:2]
        head = self.header(stamp_ns)
        data = np.ascontiguousarray(rows).reshape(-1)
        return self.make(IMAGE, head, height, width, encoding, 0, rows.shape[1], data)

    def jpeg(self, stamp_ns: int, rgb: np.ndarray, quality: int = 90, name: str = "jpeg") -> Any:
        done, data = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
        assert done
        return self.compressed(stamp_ns, f"rgb8; {name} compressed bgr8", data.reshape(-1))

    def compressed(self, stamp_ns: int, format_: str, data: np.ndarray) -> Any:
        return self.make(COMPRESSED, self.header(stamp_ns), format_, data)

    def joints(
        self, stamp_ns: int, positions: Mapping[str, float], names: Sequence[str] | None = None
    ) -> Any:
        """names: the order in which they are sent, or names that do not fit the positions."""
        order = list(positions) if names is None else list(names)
        values = (
            [positions[n] for n in order] if set(order) == set(positions) else positions.values()
        )
        none = np.zeros(0)
        array = np.array(list(values), np.float64)
        return self.make(JOINTS, self.header(stamp_ns), order, array, none, none)

    def text(self, text: str) -> Any:
        return self.make(STRING, text)

    def clock(self, ns: int) -> Any:
        return self.make(CLOCK, self.time(ns))
