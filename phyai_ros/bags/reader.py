# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A rosbag2 directory or file, in log order, finished or not."""

from __future__ import annotations

import heapq
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import Reader

from phyai_ros.bags import definitions, files, unpack
from phyai_ros.bags.files import CUT_OFF, BagError
from phyai_ros.bags.mcap_scan import Scan

__all__ = ["CUT_OFF", "Bag", "BagError", "BagMessage", "Topic"]


@dataclass(frozen=True)
class Topic:
    """type: ``package/msg/Name``. qos: profiles offered when it was recorded (rosbags' Qos)."""

    name: str
    type: str
    count: int
    qos: tuple[Any, ...] = ()


@dataclass(frozen=True)
class BagMessage:
    """time_ns: when it was recorded. data: serialised (CDR)."""

    topic: str
    type: str
    time_ns: int
    data: bytes


class Bag:
    """Opens at construction; raises BagError.

    path: a rosbag2 directory, or one of its storage files. note: what is unusual about the bag,
    for people; empty for a finished one.

    Each storage file is read by itself, whatever ``metadata.yaml`` says about it: of bags that
    rosbag2 rewrote or reindexed the two disagree about quality of service or types.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.topics: dict[str, Topic] = {}
        self._sources: list[Reader | Path] = []
        self._stack = ExitStack()
        found = files.find(self.path)
        self._notes = found.notes
        try:
            connections = self._open_all(found.paths)
            self._types, self._unread = definitions.store(connections)
        except BagError:
            self.close()
            raise
        except Exception as error:  # a damaged file may fail anywhere in the reading library
            self.close()
            raise BagError(
                f"{self.path}: cannot be read: {type(error).__name__}: {error}"
            ) from error

    @property
    def note(self) -> str:
        return "; ".join(dict.fromkeys(self._notes))

    def _open_all(self, paths: list[Path]) -> list[Any]:
        """Of several files, one in which nothing can be read (its recorder was killed as it began)
        costs the others nothing."""
        connections: list[Any] = []
        unreadable: list[BagError] = []
        for file in paths:
            try:
                connections += self._open(self._plain(file))
            except BagError as error:
                unreadable.append(error)
        if len(unreadable) == len(paths):
            raise unreadable[0]
        self._notes += [f"left out: {error}" for error in unreadable]
        return connections

    def _plain(self, file: Path) -> Path:
        """The file itself, or unpacked in a folder of its own that goes when the bag is closed."""
        if file.suffix != files.PACKED:
            return file
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="phyai-bag-"))
        plain = Path(folder) / file.stem
        try:
            if not unpack.file(file, plain):
                self._notes.append(f"{file.name}: {CUT_OFF}")
        except Exception as error:
            raise BagError(f"{file}: cannot be unpacked: {error}") from error
        return plain

    def _open(self, file: Path) -> list[Any]:
        """The file's connections. Counts what it holds into the topics."""
        if file.suffix == ".db3":
            _roll_back(file)
        reader = _reader(file)
        if reader is None:
            if file.suffix == ".db3":
                raise BagError(f"{file}: cannot be read: not a finished SQLite bag")
            connections = self._scan(file)
            self._sources.append(file)
            return connections
        self._stack.callback(reader.close)
        self._sources.append(reader)
        for c in reader.connections:
            self._count(c.topic, c.msgtype, c.msgcount, tuple(c.ext.offered_qos_profiles))
        return list(reader.connections)

    def _scan(self, file: Path) -> list[Any]:
        scan = Scan(file)
        try:
            for channel, _, _ in scan.messages():
                self._count(channel.topic, channel.msgtype, 1, ())
        except ValueError as error:
            raise BagError(str(error)) from error
        for channel in scan.channels.values():
            self._count(channel.topic, channel.msgtype, 0, _qos(channel.qos))
        if not scan.finished:
            self._notes.append(CUT_OFF)
        return list(scan.channels.values())

    def _count(self, name: str, type_: str, count: int, qos: tuple[Any, ...]) -> None:
        old = self.topics.get(name, Topic(name, type_, 0))
        profiles = tuple(dict.fromkeys((*old.qos, *qos)))
        self.topics[name] = Topic(name, type_, old.count + count, profiles)

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sources = []
        self._stack.close()

    @property
    def count(self) -> int:
        """Messages in all."""
        return sum(topic.count for topic in self.topics.values())

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """Messages in log order, equal times in the order of the file. topics: only these; None
        for all. Raises BagError where the bag is damaged."""
        wanted = set(self.topics if topics is None else topics)
        sources = [
            _scanned(source, wanted) if isinstance(source, Path) else _read(source, wanted)
            for source in self._sources
        ]
        try:
            yield from heapq.merge(*sources, key=lambda message: message.time_ns)
        except Exception as error:
            raise BagError(f"{self.path}: damaged: {type(error).__name__}: {error}") from error

    def decode(self, message: BagMessage) -> Any:
        """The message's fields, as rosbags gives them. Raises BagError."""
        try:
            return self._types.deserialize_cdr(message.data, message.type)
        except Exception as error:
            reason = self._unread.get(message.type)
            because = (
                f"its definition in the bag cannot be read: {reason}"
                if reason
                else f"{type(error).__name__}: {error}"
            )
            raise BagError(
                f"{message.topic}: {len(message.data)} bytes do not decode as {message.type}: "
                f"{because}"
            ) from error


def _reader(file: Path) -> Reader | None:
    """The library's reader of a finished file; None where it has to be scanned."""
    if file.suffix == ".mcap" and not unpack.is_bounded(file):
        return None
    try:
        reader = Reader(file)
        reader.open()
    except Exception:
        return None
    if file.suffix == ".mcap" and not _is_indexed(reader):
        reader.close()
        return None
    return reader


def _is_indexed(reader: Any) -> bool:
    """Without chunks the library gives messages in the file's order, or refuses; of a chunk without
    an index of its messages it gives none."""
    chunks = reader.storage.chunks
    return bool(chunks) and all(chunk.channel_count for chunk in chunks)


def _read(reader: Reader, wanted: set[str]) -> Iterator[BagMessage]:
    chosen = [c for c in reader.connections if c.topic in wanted]
    if chosen:  # none would mean all
        for connection, time_ns, data in reader.messages(chosen):
            plain = unpack.message(bytes(data))
            yield BagMessage(connection.topic, connection.msgtype, time_ns, plain)


def _scanned(file: Path, wanted: set[str]) -> Iterator[BagMessage]:
    for channel, time_ns, data in Scan(file).messages():
        if channel.topic in wanted:
            yield BagMessage(channel.topic, channel.msgtype, time_ns, unpack.message(data))


def _qos(text: str) -> tuple[Any, ...]:
    from rosbags.rosbag2.metadata import parse_qos

    try:
        return tuple(parse_qos(text))
    except Exception:
        return ()


def _roll_back(file: Path) -> None:
    """A killed writer leaves a half transaction and its journal; SQLite undoes it on first use."""
    left = [tail for tail in ("-journal", "-wal") if file.with_name(file.name + tail).exists()]
    if not left:
        return
    try:
        connection = sqlite3.connect(file)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.close()
    except sqlite3.Error as error:
        raise BagError(
            f"{file}: its writer was killed and left {file.name}{left[0]}, which cannot be worked "
            f"in: {error}; the folder must be one that may be written to"
        ) from error
