# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How large a compressed image says it is, before anything is allocated for it.

A PNG of 250 kB can hold 256 million pixels and keep the executor's thread for seconds. Layouts:
PNG (ISO/IEC 15948, 11.2.2) and JPEG (ITU-T T.81, B.2).
"""

from __future__ import annotations

import struct

_STANDALONE = {0x01, *range(0xD0, 0xD8)}
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


def png_size(data: bytes) -> tuple[int, int] | None:
    """(width, height), None where the bytes are no PNG."""
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) of the first frame, None where there is none."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _STANDALONE:
            at += 2
        elif marker in _FRAMES and at + 9 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
