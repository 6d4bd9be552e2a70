# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Reading serialised sensor images without copying their pixels.

rclpy's own deserialisation turns ``uint8[]`` into an ``array.array``: one copy of every pixel, made
under the interpreter lock. A raw subscription hands over the serialised bytes instead, and the few
fields in front of the pixels are read here. Layout: CDR (OMG DDS-XTYPES 1.3, section 7.4.3), plain
encoding version 1, as every ROS 2 middleware writes it for messages of final extensibility.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

NANOSECONDS = 1_000_000_000
_PLAIN_BIG, _PLAIN_LITTLE = b"\x00\x00", b"\x00\x01"


class CdrError(ValueError):
    """Bytes that are not the message they are said to be."""


@dataclass(frozen=True)
class RawImage:
    """sensor_msgs/Image with ``data`` still inside the serialised message.

    stamp_ns: header stamp, nanoseconds. data: read-only view, ``len(data)`` as sent.
    """

    stamp_ns: int
    frame_id: str
    height: int
    width: int
    encoding: str
    is_bigendian: bool
    step: int
    data: memoryview


@dataclass(frozen=True)
class RawCompressedImage:
    """sensor_msgs/CompressedImage with ``data`` still inside the serialised message."""

    stamp_ns: int
    frame_id: str
    format: str
    data: memoryview


class _Reader:
    """A cursor over one plain CDR stream; primitives are aligned to their own size."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        view = memoryview(buffer).cast("B").toreadonly()
        if len(view) < 4:
            raise CdrError(f"{len(view)} bytes are too few for a CDR header of 4")
        representation = bytes(view[:2])
        if representation == _PLAIN_LITTLE:
            self._order = "<"
        elif representation == _PLAIN_BIG:
            self._order = ">"
        else:
            raise CdrError(
                f"representation 0x{representation.hex()} is not plain CDR (0x0000 or 0x0001)"
            )
        self._body = view[4:]
        self._at = 0

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._body):
            raise CdrError(f"message ends at byte {len(self._body)}, field needs {end}")
        part = self._body[self._at : end]
        self._at = end
        return part

    def _primitive(self, code: str, size: int) -> int:
        self._at += -self._at % size
        return int(struct.unpack(self._order + code, self._take(size))[0])

    def i32(self) -> int:
        return self._primitive("i", 4)

    def u32(self) -> int:
        return self._primitive("I", 4)

    def u8(self) -> int:
        return self._take(1)[0]

    def string(self) -> str:
        size = self.u32()
        if size == 0:  # some writers leave out the terminator of an empty string
            return ""
        return bytes(self._take(size)).rstrip(b"\0").decode("utf-8", errors="replace")

    def octets(self) -> memoryview:
        return self._take(self.u32())

    def stamp_ns(self) -> int:
        return self.i32() * NANOSECONDS + self.u32()


def read_image(buffer: bytes | bytearray | memoryview) -> RawImage:
    """Serialised sensor_msgs/Image -> its fields; raises CdrError."""
    reader = _Reader(buffer)
    return RawImage(
        stamp_ns=reader.stamp_ns(),
        frame_id=reader.string(),
        height=reader.u32(),
        width=reader.u32(),
        encoding=reader.string(),
        is_bigendian=reader.u8() != 0,
        step=reader.u32(),
        data=reader.octets(),
    )


def read_compressed_image(buffer: bytes | bytearray | memoryview) -> RawCompressedImage:
    """Serialised sensor_msgs/CompressedImage -> its fields; raises CdrError."""
    reader = _Reader(buffer)
    return RawCompressedImage(
        stamp_ns=reader.stamp_ns(),
        frame_id=reader.string(),
        format=reader.string(),
        data=reader.octets(),
    )
