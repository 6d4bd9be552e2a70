# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Compressed chunks, messages and files of a bag, never unpacked to more than is allowed.

A megabyte of zstd can hold terabytes of zeros, and the reading library unpacks what it is given.
"""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import Any

LARGEST_CHUNK = 256 << 20
"""Bytes that one chunk may unpack to; rosbag2 begins a new one every few megabytes."""
RESERVE = 1 << 30
"""Bytes to leave free on the disk to which a file is unpacked."""
_STEP = 1 << 20
_CHUNK = 0x06
_MAGIC = 8
_ZSTD = b"\x28\xb5\x2f\xfd"


def unpack(compression: str, packed: bytes, size: int) -> bytes:
    """A chunk's records. size: what the chunk says they are. Raises ValueError or what the
    compression's library has."""
    if not compression:
        return packed
    if size > LARGEST_CHUNK:
        raise ValueError(f"expected at most {LARGEST_CHUNK >> 20} MB a chunk, found {size} bytes")
    if compression == "zstd":
        decoder: Any = _zstd().ZstdDecompressor()
    elif compression == "lz4":
        import lz4.frame  # type: ignore[import-untyped]

        decoder = lz4.frame.LZ4FrameDecompressor()
    else:
        raise ValueError(f"compression {compression!r}: expected zstd or lz4")
    data = bytes(decoder.decompress(packed, max_length=size + 1))
    if len(data) != size:
        raise ValueError(f"expected {size} bytes, found {'more' if len(data) > size else 'fewer'}")
    return data


def message(data: bytes) -> bytes:
    """A message as it was before rosbag2 compressed it by itself; a plain one as it is.

    No serialised message begins like a zstd frame: the first byte of CDR's encapsulation is 0.
    Raises ValueError where it unpacks to more than a chunk may.
    """
    if not data.startswith(_ZSTD):
        return data
    decoder = _zstd().ZstdDecompressor()
    plain = bytes(decoder.decompress(data, max_length=LARGEST_CHUNK + 1))
    if len(plain) > LARGEST_CHUNK:
        raise ValueError(f"expected at most {LARGEST_CHUNK >> 20} MB a message, found more")
    if not decoder.eof:
        raise ValueError("a compressed message that ends too early")
    return plain


def file(packed: Path, plain: Path) -> bool:
    """Unpacks a storage file that rosbag2 compressed whole. False where it ends too early: its
    recorder was killed; ``plain`` holds what there was. Raises OSError where the disk has too
    little room, or zstd's own error for bytes that are none."""
    with packed.open("rb") as source, plain.open("wb") as target:
        decoder = _zstd().ZstdDecompressor()
        while True:
            if decoder.eof:  # another frame may follow
                rest = decoder.unused_data or source.read(_STEP)
                if not rest:
                    return True
                decoder = _zstd().ZstdDecompressor()
                target.write(decoder.decompress(rest, max_length=_STEP))
            elif decoder.needs_input:
                rest = source.read(_STEP)
                if not rest:
                    return False
                target.write(decoder.decompress(rest, max_length=_STEP))
            else:
                target.write(decoder.decompress(b"", max_length=_STEP))
            free = shutil.disk_usage(plain.parent).free
            if free < RESERVE:
                raise OSError(
                    f"unpacking needs more room in {plain.parent}: {free >> 20} MB are free there, "
                    f"{RESERVE >> 20} MB shall stay so (TMPDIR chooses another place)"
                )


def is_bounded(path: Path) -> bool:
    """Whether a library that unpacks each chunk whole gets no more than the chunk says, and that is
    no more than allowed. Reads the headers alone. A damaged file may end anywhere: up to there."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        at = _MAGIC
        while at + 9 <= end:
            file.seek(at)
            code, length = struct.unpack("<BQ", file.read(9))
            after = at + 9 + length
            if code == _CHUNK and after <= end:
                head = file.read(32)
                if len(head) < 32:
                    return True
                size, name = struct.unpack_from("<16xQ4xI", head)
                compression = file.read(min(name, 64))
                if size > LARGEST_CHUNK:
                    return False
                if compression:
                    file.read(8)
                    packed = file.read(after - file.tell())
                    if compression != b"zstd" or not _says(packed, size):
                        return False
            at = after
    return True


def _says(packed: bytes, size: int) -> bool:
    """Whether it is one zstd frame that itself says it holds ``size`` bytes."""
    zstd = _zstd()
    try:
        whole = zstd.get_frame_size(packed) == len(packed)
        return bool(whole and zstd.get_frame_info(packed).decompressed_size == size)
    except zstd.ZstdError:
        return False


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
