# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Reads an MCAP file without its index: from the front, as far as it goes.

One whose writer was killed has neither index nor footer, one of rosbag2's ``fastwrite`` profile
neither chunks nor index. Layout: MCAP specification 1.0, "Records". Everything in front of the
first record that is cut off is read; what is there after it is not guessed at.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat

from phyai_ros.bags.unpack import LARGEST_CHUNK, unpack

MAGIC = b"\x89MCAP0\r\n"
LARGEST = 1 << 30
"""Bytes of one record; a length beyond it is damage, not data."""
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x02, 0x03, 0x04, 0x05, 0x06, 0x0F
_FORMATS = {
    "ros2msg": MessageDefinitionFormat.MSG,
    "ros2idl": MessageDefinitionFormat.IDL,
    "omgidl": MessageDefinitionFormat.IDL,
}
_NO_SCHEMA = "", MessageDefinition(MessageDefinitionFormat.NONE, "")


class Channel(NamedTuple):
    """As rosbags' Connection, so far as it is used. qos: as the file holds it."""

    topic: str
    msgtype: str
    msgdef: MessageDefinition
    qos: str


class Cut(Exception):  # noqa: N818
    """The file ends, or stops making sense, here."""


Message = tuple[Channel, int, bytes]


@dataclass
class Scan:
    """channels: by id, filled in as ``messages`` comes upon them. cut_at: byte at which reading
    ended, None where everything made sense. finished: whether its writer came to the end."""

    path: Path
    channels: dict[int, Channel] = field(default_factory=dict)
    cut_at: int | None = None
    finished: bool = False
    _schemas: dict[int, tuple[str, MessageDefinition]] = field(default_factory=dict)

    def messages(self) -> Iterator[Message]:
        """(channel, log time in ns, serialised message), in log order, equal times as in the file.
        Raises ValueError when the file is no MCAP file at all.

        Chunks of one recorder overlap in time a little, so a message waits until no later record
        can hold an earlier one; at most LARGEST_CHUNK bytes wait, whatever the chunks say.
        """
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ValueError(f"{self.path}: not an MCAP file")
            earliest = _earliest_after(file)
            waiting: list[tuple[int, int, Channel, bytes]] = []
            held = order = 0
            for place, found in self._records(file):
                for channel, time, data in found:
                    heapq.heappush(waiting, (time, order, channel, data))
                    held, order = held + len(data), order + 1
                later = earliest[min(place, len(earliest) - 1)]
                while waiting and (waiting[0][0] <= later or held > LARGEST_CHUNK):
                    time, _, channel, data = heapq.heappop(waiting)
                    held -= len(data)
                    yield channel, time, data
            while waiting:
                time, _, channel, data = heapq.heappop(waiting)
                yield channel, time, data

    def _records(self, file: BinaryIO) -> Iterator[tuple[int, list[Message]]]:
        """Which chunk or message of the file it is, and its messages."""
        file.seek(len(MAGIC))
        place = 0
        while True:
            at = file.tell()
            try:
                code, body = _record(file)
                if code is None or code == _FOOTER:
                    self.finished = code is not None
                    return
                found = self._use(code, body)
            except (Cut, struct.error, UnicodeDecodeError, KeyError):
                self.cut_at = at
                return
            if code in (_CHUNK, _MESSAGE):
                yield place, found
                place += 1

    def _use(self, code: int, body: bytes) -> list[Message]:
        if code == _CHUNK:
            found: list[Message] = []
            inner = BytesIO(_chunk_data(body))
            while True:
                code_inside, body_inside = _record(inner)
                if code_inside is None:
                    return found
                if code_inside == _CHUNK:
                    raise Cut
                found += self._use(code_inside, body_inside)
        if code == _MESSAGE:
            channel, _, log_time, _ = struct.unpack_from("<HIQQ", body)
            return [(self.channels[channel], log_time, body[22:])]
        if code == _SCHEMA:
            fields = BytesIO(body)
            (number,) = struct.unpack("<H", _exactly(fields, 2))
            name, encoding = _text(fields), _text(fields)
            definition = MessageDefinition(
                _FORMATS.get(encoding, MessageDefinitionFormat.NONE), _text(fields)
            )
            self._schemas[number] = (name, definition)
        elif code == _CHANNEL:
            fields = BytesIO(body)
            number, schema = struct.unpack("<HH", _exactly(fields, 4))
            topic, _, metadata = _text(fields), _text(fields), BytesIO(_block(fields))
            qos = ""
            while metadata.tell() < len(metadata.getbuffer()):
                key, value = _text(metadata), _text(metadata)
                qos = value if key == "offered_qos_profiles" else qos
            name, definition = self._schemas[schema] if schema else _NO_SCHEMA
            self.channels[number] = Channel(topic, name, definition, qos)
        return []


def _earliest_after(file: BinaryIO) -> list[int]:
    """By chunk and message of the file: the earliest log time (ns) of all that come after it."""
    end = file.seek(0, 2)
    at = len(MAGIC)
    times: list[int] = []
    while at + 9 <= end:
        file.seek(at)
        code, size = struct.unpack("<BQ", file.read(9))
        at += 9 + size
        if code in (_FOOTER, _DATA_END) or size > LARGEST or at > end:
            break
        if code == _CHUNK:
            first, _, unpacked = struct.unpack("<QQQ", file.read(24).ljust(24, b"\0"))
            times.append(first if unpacked else 2**64)
        elif code == _MESSAGE:
            times.append(struct.unpack_from("<6xQ", file.read(14).ljust(14, b"\0"))[0])
    earliest = [2**64] * (len(times) + 1)
    for i in range(len(times) - 1, -1, -1):
        earliest[i] = min(earliest[i + 1], times[i])
    return earliest[1:] or [2**64]


def _record(file: BinaryIO) -> tuple[Any, bytes]:
    """Code and body of the next record; (None, b"") at the end. Raises Cut."""
    head = file.read(9)
    if not head:
        return None, b""
    if len(head) < 9:
        raise Cut
    code, size = struct.unpack("<BQ", head)
    return code, _exactly(file, size)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size <= LARGEST else b""
    if len(data) != size:
        raise Cut
    return data


def _block(file: BinaryIO) -> bytes:
    return _exactly(file, struct.unpack("<I", _exactly(file, 4))[0])


def _text(file: BinaryIO) -> str:
    return _block(file).decode()


def _chunk_data(body: bytes) -> bytes:
    fields = BytesIO(body)
    _, _, size, checksum = struct.unpack("<QQQI", _exactly(fields, 28))
    compression = _text(fields)
    (length,) = struct.unpack("<Q", _exactly(fields, 8))
    packed = _exactly(fields, length)
    try:
        data = unpack(compression, packed, size)
    except Exception as error:  # each library has its own kind
        raise Cut from error
    if len(data) != size or (checksum and crc32(data) != checksum):
        raise Cut
    return data
