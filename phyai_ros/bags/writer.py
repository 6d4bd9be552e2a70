# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Writes a rosbag2 directory that stays readable whatever happens to its writer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.rosbag2.metadata import dump_qos_v8

from phyai_ros.bags import definitions
from phyai_ros.bags.write_behind import WriteBehind, open_small

VERSION: Literal[8] = 8
"""Of metadata.yaml: the newest that Humble's ``ros2 bag info`` reads too."""
STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}


class BagWriter:
    """One thread writes. After ``flush`` everything written so far survives the death of this
    process: MCAP is read from the front, SQLite from its last commit.

    path: must not exist. storage: mcap or sqlite3. compress: zstd inside MCAP, small and slow.
    Raises OSError or WriterError.
    """

    def __init__(self, path: str | Path, storage: str = "mcap", *, compress: bool = False) -> None:
        self.path = Path(path)
        self.storage = storage
        self.counts: dict[str, int] = {}
        self._writer = Writer(self.path, version=VERSION, storage_plugin=STORAGES[storage])
        if compress:
            self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
        self._writer.open()
        opened: Any = self._writer.storage
        if storage == "mcap":
            self._reopen(opened)
        self._behind = WriteBehind(opened.path)
        self._types = definitions.own()
        self._connections: dict[str, Any] = {}
        # Surely in the file: bytes and chunks of MCAP, messages by connection.
        self._good = 0, 0
        self._good_counts: dict[int, int] = {}
        self.flush()

    def add_topic(self, name: str, type_: str, qos: Sequence[Any] = ()) -> None:
        """type_: ``package/msg/Name``. qos: offered profiles (rosbags' Qos). Raises ValueError for
        a type whose definition is not known."""
        if type_ not in self._types.fielddefs:
            raise ValueError(f"{name}: the definition of {type_} is not known here")
        self._connections[name] = self._writer.add_connection(
            name, type_, typestore=self._types, offered_qos_profiles=list(qos)
        )
        self.counts[name] = 0

    def has(self, topic: str) -> bool:
        return topic in self._connections

    def write(self, topic: str, time_ns: int, data: bytes) -> None:
        """data: serialised (CDR). time_ns: when it came."""
        self._writer.write(self._connections[topic], time_ns, data)
        self.counts[topic] += 1
        storage: Any = self._writer.storage
        if self.storage == "mcap" and len(storage.chunks) != self._good[1]:
            self._mark(storage)

    def flush(self) -> None:
        """Hand everything to the operating system, and bring metadata.yaml up to date."""
        storage: Any = self._writer.storage
        if self.storage == "mcap" and storage.chunk.bio.tell():
            storage.close_chunk()
        self._mark(storage)
        self._write_metadata()

    def _mark(self, storage: Any) -> None:
        """What is written so far is safe."""
        if self.storage == "mcap":
            storage.bio.flush()
            self._good = storage.bio.tell(), len(storage.chunks)
        else:
            storage.conn.commit()
        self._behind.advance()
        self._good_counts = dict(self._writer.counts)

    def close(self) -> None:
        self._writer.close()
        self._behind.close()

    @staticmethod
    def _reopen(storage: Any) -> None:
        """rosbags' file would write every chunk at once."""
        at = storage.bio.tell()
        storage.bio.close()
        storage.bio = open_small(storage.path, at)

    def rescue(self) -> str | None:
        """After a failed write: keep what is surely in the file and finish it as far as the disk
        allows. Why it could not be finished, or None; it is readable either way."""
        storage: Any = self._writer.storage
        self._behind.close()
        if storage is None:
            return None
        self._writer.counts = {c: self._good_counts.get(c, 0) for c in self._writer.counts}
        try:
            if self.storage == "mcap":
                self._cut(storage)
            else:
                storage.conn.rollback()
            self._writer.close()
        except Exception as error:
            with suppress(Exception):
                self._writer.abort()
            if self.storage == "mcap":
                with suppress(OSError), storage.path.open("r+b") as file:
                    file.truncate(self._good[0])
            return f"{type(error).__name__}: {error}"
        return None

    def _cut(self, storage: Any) -> None:
        size, chunks = self._good
        with suppress(OSError):  # what its buffer still holds did not fit
            storage.bio.close()
        with storage.path.open("r+b") as file:
            file.truncate(size)
        storage.bio = open_small(storage.path, size)
        del storage.chunks[chunks:]
        storage.chunk = type(storage.chunk)(2**63 - 1, 0, type(storage.chunk.bio)(), {})
        storage.channel_stats = dict(self._writer.counts)

    def _write_metadata(self) -> None:
        writer = self._writer
        start = writer.min_timestamp if any(writer.counts.values()) else 0
        duration = {"nanoseconds": max(0, writer.max_timestamp - start)}
        starting = {"nanoseconds_since_epoch": start}
        count = sum(writer.counts.values())
        file = writer.storage.path.name if writer.storage else ""
        information = {
            "version": VERSION,
            "storage_identifier": self.storage,
            "relative_file_paths": [file],
            "duration": duration,
            "starting_time": starting,
            "message_count": count,
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": c.topic,
                        "type": c.msgtype,
                        "serialization_format": "cdr",
                        "offered_qos_profiles": dump_qos_v8(c.ext.offered_qos_profiles),
                        "type_description_hash": c.digest,
                    },
                    "message_count": writer.counts[c.id],
                }
                for c in self._connections.values()
            ],
            "compression_format": "",
            "compression_mode": "",
            "files": [
                {
                    "path": file,
                    "starting_time": dict(starting),
                    "duration": dict(duration),
                    "message_count": count,
                }
            ],
            "custom_data": None,
            "ros_distro": "rosbags",
        }
        text = yaml.safe_dump({"rosbag2_bagfile_information": information}, sort_keys=False)
        temporary = self.path / "metadata.yaml.tmp"
        temporary.write_text(text, "utf-8")
        temporary.replace(self.path / "metadata.yaml")
