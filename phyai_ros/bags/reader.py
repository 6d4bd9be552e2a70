# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A rosbag2 directory or file, in log order, finished or not."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import Reader

from phyai_ros.bags import definitions
from phyai_ros.bags.mcap_scan import Scan
from phyai_ros.bags.unpack import is_bounded

SUFFIXES = (".mcap", ".db3")
CUT_OFF = "its recording was cut off; read as far as it goes"


class BagError(ValueError):
    """A bag that cannot be read; the text names the file and what is wrong with it."""


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
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.note = ""
        self._readers: list[Reader] = []
        self._scans: list[Path] = []
        if not self.path.exists():
            raise BagError(f"{self.path}: there is no such bag")
        try:
            self._open()
            connections = [c for reader in self._readers for c in reader.connections]
            self.topics = _topics(connections)
            for file in self._scans:
                connections += self._scan_topics(file)
            self._types = definitions.store(connections)
        except BagError:
            self.close()
            raise
        except Exception as error:  # a damaged file may fail anywhere in the reading library
            self.close()
            raise BagError(
                f"{self.path}: cannot be read: {type(error).__name__}: {error}"
            ) from error

    def _open(self) -> None:
        if self.path.is_dir():
            for file in self.path.glob("*.db3"):
                _roll_back(file)
        elif self.path.suffix == ".db3":
            _roll_back(self.path)
        whole = self.path.is_file() or (self.path / "metadata.yaml").is_file()
        if whole and self._try(self.path):
            return
        files = [self.path] if self.path.is_file() else sorted(self.path.iterdir())
        files = [file for file in files if file.suffix in SUFFIXES]
        if not files:
            raise BagError(f"{self.path}: no bag: expected a file *.mcap or *.db3 in it")
        for file in files:
            if not self._try(file):
                if file.suffix != ".mcap":
                    raise BagError(f"{file}: cannot be read: not a finished SQLite bag")
                self._scans.append(file)
        if self.path.is_dir() and not whole:
            self.note = CUT_OFF

    def _try(self, path: Path) -> bool:
        reader = None
        files = [path] if path.is_file() else path.glob("*.mcap")
        if not all(is_bounded(file) for file in files if file.suffix == ".mcap"):
            return False
        try:
            reader = Reader(path)
            reader.open()
        except Exception:
            return False
        self._readers.append(reader)
        return True

    def _scan_topics(self, file: Path) -> list[Any]:
        scan = Scan(file)
        try:
            for channel, _, _ in scan.messages():
                old = self.topics.get(channel.topic)
                self.topics[channel.topic] = Topic(
                    channel.topic,
                    channel.msgtype,
                    1 + (old.count if old else 0),
                    old.qos if old else _qos(channel.qos),
                )
        except ValueError as error:
            raise BagError(str(error)) from error
        if not scan.finished:
            self.note = CUT_OFF
        return list(scan.channels.values())

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self._readers:
            if reader.is_open:
                with suppress(Exception):
                    reader.close()
        self._readers = []

    @property
    def count(self) -> int:
        """Messages in all."""
        return sum(topic.count for topic in self.topics.values())

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """Messages in log order, equal times in the order of the file. topics: only these; None
        for all. Raises BagError where the bag is damaged."""
        wanted = set(self.topics if topics is None else topics)
        sources = [self._read(reader, wanted) for reader in self._readers]
        sources += [_scanned(file, wanted) for file in self._scans]
        try:
            yield from heapq.merge(*sources, key=lambda message: message.time_ns)
        except Exception as error:
            raise BagError(f"{self.path}: damaged: {type(error).__name__}: {error}") from error

    @staticmethod
    def _read(reader: Reader, wanted: set[str]) -> Iterator[BagMessage]:
        chosen = [c for c in reader.connections if c.topic in wanted]
        if chosen:  # none would mean all
            for connection, time_ns, data in reader.messages(chosen):
                yield BagMessage(connection.topic, connection.msgtype, time_ns, bytes(data))

    def decode(self, message: BagMessage) -> Any:
        """The message's fields, as rosbags gives them. Raises BagError."""
        try:
            return self._types.deserialize_cdr(message.data, message.type)
        except Exception as error:
            raise BagError(
                f"{message.topic}: {len(message.data)} bytes do not decode as {message.type}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _topics(connections: list[Any]) -> dict[str, Topic]:
    topics: dict[str, Topic] = {}
    for c in connections:
        old = topics.get(c.topic)
        qos = (*(old.qos if old else ()), *c.ext.offered_qos_profiles)
        topics[c.topic] = Topic(c.topic, c.msgtype, c.msgcount + (old.count if old else 0), qos)
    return topics


def _qos(text: str) -> tuple[Any, ...]:
    from rosbags.rosbag2.metadata import parse_qos

    try:
        return tuple(parse_qos(text))
    except Exception:
        return ()


def _scanned(file: Path, wanted: set[str]) -> Iterator[BagMessage]:
    for channel, time_ns, data in Scan(file).messages():
        if channel.topic in wanted:
            yield BagMessage(channel.topic, channel.msgtype, time_ns, data)


def _roll_back(file: Path) -> None:
    """A killed writer leaves a half transaction and its journal; SQLite undoes it on first use."""
    if any(file.with_name(file.name + tail).exists() for tail in ("-journal", "-wal")):
        try:
            connection = sqlite3.connect(file)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.close()
        except sqlite3.Error as error:
            raise BagError(f"{file}: cannot be recovered: {error}") from error
