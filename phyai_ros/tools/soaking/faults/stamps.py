# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Stamps of serialised messages that begin with one: a std_msgs/Header, or /clock itself. Pure."""

from __future__ import annotations

import struct

from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.tools.soaking.faults.messages import Sent

_PLACE = slice(4, 12)
"""Behind the encapsulation: int32 seconds, uint32 nanoseconds."""
_LITTLE = b"\x00\x01"


def read(data: bytes) -> int:
    """Nanoseconds. Raises ValueError for bytes that are not little-endian plain CDR."""
    seconds, nanoseconds = struct.unpack("<iI", _check(data)[_PLACE])
    return int(seconds) * NANOSECONDS + int(nanoseconds)


def write(data: bytes, stamp_ns: int) -> bytes:
    """The message with another stamp."""
    seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS)
    data = _check(data)
    return data[: _PLACE.start] + struct.pack("<iI", seconds, nanoseconds) + data[_PLACE.stop :]


class Shifted:
    """The sender's clock is ``seconds`` off."""

    def __init__(self, seconds: float) -> None:
        self._ns = round(seconds * NANOSECONDS)

    def __call__(self, data: bytes, now: float) -> Sent:
        return [(now, write(data, read(data) + self._ns))]


def _check(data: bytes) -> bytes:
    data = bytes(data)
    if len(data) < _PLACE.stop or data[:2] != _LITTLE:
        raise ValueError(f"no little-endian plain CDR with a header: {data[:12].hex()}")
    return data
