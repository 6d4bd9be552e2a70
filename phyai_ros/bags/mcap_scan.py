# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Reads an MCAP file whose writer was killed: from the front, as far as it goes.

Such a file has neither index nor footer. Layout: MCAP specification 1.0, "Records". Everything in
front of the first record that is cut off is read; what is there after it is not guessed at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat

from phyai_ros.bags.unpack import unpack

MAGIC = b"\x89MCAP0\r\n"
LARGEST = 1 << 30
"""Bytes of one record; a length beyond it is damage, not data."""
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK = 0x03, 0x04, 0x05, 0x06
_FORMATS = {
    "ros2msg": MessageDefinitionFormat.MSG,
    "ros2idl": MessageDefinitionFormat.IDL,
    "omgidl": MessageDefinitionFormat.IDL,
}


class Channel(NamedTuple):
    """As rosbags' Connection, so far as it is used. qos: as the file holds it."""

    topic: str
    msgtype: str
    msgdef: MessageDefinition
    qos: str


class Cut(Exception):  # noqa: N818
    """The file ends, or stops making sense, here."""


@dataclass
class Scan:
    """channels: by id, filled in as ``messages`` comes upon them. cut_at: byte at which reading
    ended, None where everything made sense. finished: whether its writer came to the end."""

    path: Path
    channels: dict[int, Channel] = field(default_factory=dict)
    cut_at: int | None = None
    finished: bool = False
    _schemas: dict[int, tuple[str, MessageDefinition]] = field(default_factory=dict)

    def messages(self) -> Iterator[tuple[Channel, int, bytes]]:
        """(channel, log time in ns, serialised message), in log order within each chunk. Raises
        ValueError when the file is no MCAP file at all."""
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ValueError(f"{self.path}: not an MCAP file")
            while True:
                at = file.tell()
                try:
                    code, body = _record(file)
                    if code is None or code == 0x02:  # the footer
                        self.finished = code is not None
                        return
                    yield from self._use(code, body)
                except (Cut, struct.error, UnicodeDecodeError, KeyError):
                    self.cut_at = at
                    return

    def _use(self, code: int, body: bytes) -> Iterator[tuple[Channel, int, bytes]]:
        if code == _CHUNK:
            found: list[tuple[Channel, int, bytes]] = []
            inner = BytesIO(_chunk_data(body))
            while True:
                code_inside, body_inside = _record(inner)
                if code_inside is None:
                    break
                found += self._use(code_inside, body_inside)
            yield from sorted(found, key=lambda message: message[1])
        elif code == _MESSAGE:
            channel, _, log_time, _ = struct.unpack_from("<HIQQ", body)
            yield self.channels[channel], log_time, body[22:]
        elif code == _SCHEMA:
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
            topic, _encoding, metadata = _text(fields), _text(fields), BytesIO(_block(fields))
            qos = ""
            while metadata.tell() < len(metadata.getbuffer()):
                key, value = _text(metadata), _text(metadata)
                qos = value if key == "offered_qos_profiles" else qos
            name, definition = self._schemas[schema]
            self.channels[number] = Channel(topic, name, definition, qos)


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
