# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Faults of one camera's serialised sensor_msgs/Image. Pure."""

from __future__ import annotations

import struct

from phyai_ros.tools.soaking.faults import stamps
from phyai_ros.tools.soaking.faults.messages import Sent, Tamper


class FrozenStamp:
    """The first message again and again, as of a driver whose thread hangs."""

    def __init__(self) -> None:
        self._first: bytes | None = None

    def __call__(self, data: bytes, now: float) -> Sent:
        if self._first is None:
            self._first = bytes(data)
        return [(now, self._first)]


class FrozenPixels(FrozenStamp):
    """New stamps, the first picture: a camera that hangs behind a driver that does not."""

    def __call__(self, data: bytes, now: float) -> Sent:
        ((_, first),) = super().__call__(data, now)
        return [(now, stamps.write(first, stamps.read(data)))]


def unknown_encoding(data: bytes, now: float) -> Sent:
    """An encoding that does not exist, of the same length."""
    data = bytes(data)
    place = data.find(b"rgb8\0", 0, 128)
    if place < 0:
        raise ValueError("expected an rgb8 image")
    return [(now, data[:place] + b"xyz8" + data[place + 4 :])]


def cut_off(data: bytes, now: float) -> Sent:
    """Half of the bytes are missing."""
    return [(now, bytes(data)[: len(data) // 2 // 4 * 4])]


def wrong_height(data: bytes, now: float) -> Sent:
    """More rows than pixels have come."""
    data = bytes(data)
    (size,) = struct.unpack_from("<I", data, 12)  # of the frame's name, behind the stamp
    place = 16 + size + -size % 4
    (height,) = struct.unpack_from("<I", data, place)
    return [(now, data[:place] + struct.pack("<I", height * 2 + 1) + data[place + 4 :])]


FROZEN: dict[str, type[FrozenStamp]] = {"stamp": FrozenStamp, "pixels": FrozenPixels}
CORRUPTED: dict[str, Tamper] = {
    "encoding": unknown_encoding,
    "cut off": cut_off,
    "height": wrong_height,
}
