# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Between subscriptions and the disk: a bounded queue, and one thread that writes it away."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from phyai_ros.bags.writer import BagWriter

FLUSH_EVERY = 0.5
"""Seconds of recording that the death of the process may cost."""
LOOK_EVERY = 0.2
"""Seconds between two looks at the room on the disk."""


class BagRecorder:
    """``offer`` never blocks: what does not fit in the queue is dropped and counted.

    make_writer: called on the thread that writes, as SQLite demands; what it raises is raised
    here. queue_bytes: of messages that wait for the disk. reserve: bytes to leave free on the disk;
    recording ends when less is free. failure: why recording ended by itself, for people; None
    while it goes on. dropped: messages by topic.
    """

    def __init__(
        self, make_writer: Callable[[], BagWriter], queue_bytes: int, reserve: int
    ) -> None:
        self.failure: str | None = None
        self.dropped: Counter[str] = Counter()
        self.bytes = 0
        self._make_writer = make_writer
        self._writer: BagWriter
        self._opening: BaseException | None = None
        self._opened = threading.Event()
        self._limit = queue_bytes
        self._reserve = reserve
        self._queue: deque[tuple[str, int, bytes] | tuple[str, str, Sequence[Any]]] = deque()
        self._queued = 0
        self._condition = threading.Condition()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="phyai_bag", daemon=True)
        self._thread.start()
        self._opened.wait()
        if self._opening is not None:
            raise self._opening

    def add_topic(self, name: str, type_: str, qos: Sequence[Any]) -> None:
        """type_: ``package/msg/Name``. qos: rosbags' Qos."""
        with self._condition:
            self._queue.append((name, type_, qos))

    def offer(self, topic: str, time_ns: int, data: bytes) -> None:
        """From any thread. data: serialised."""
        with self._condition:
            if self._stop or self._queued + len(data) > self._limit:
                self.dropped[topic] += 1
                return
            self._queued += len(data)
            self._queue.append((topic, time_ns, data))
            self._condition.notify()

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._writer.counts)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Write what waits and finish the bag."""
        with self._condition:
            self._stop = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._writer = self._make_writer()
        except BaseException as error:
            self._opening = error
            return
        finally:
            self._opened.set()
        try:
            self._write()
            self._writer.close()
        except Exception as error:  # sqlite3 has its own kinds, the disk another
            with self._condition:
                self._stop = True
                self._queue.clear()
            trouble = self._writer.rescue()
            kept = "what came before is kept" + (f"; not finished: {trouble}" if trouble else "")
            self.failure = f"{type(error).__name__}: {error}; {kept}"

    def _write(self) -> None:
        due, look = time.monotonic() + FLUSH_EVERY, time.monotonic() + LOOK_EVERY
        while True:
            with self._condition:
                if not self._queue and not self._stop:
                    self._condition.wait(max(0.0, min(due, look) - time.monotonic()))
                batch, self._queue = self._queue, deque()
                stopped = self._stop
            for topic, second, third in batch:
                if isinstance(second, str):
                    self._writer.add_topic(topic, second, third)
                    continue
                assert isinstance(third, bytes)
                self._writer.write(topic, second, third)
                self.bytes += len(third)
                with self._condition:
                    self._queued -= len(third)
            if time.monotonic() >= due:
                self._writer.flush()
                due = time.monotonic() + FLUSH_EVERY
            if time.monotonic() >= look:
                look = time.monotonic() + LOOK_EVERY
                free = shutil.disk_usage(self._writer.path).free
                if free < self._reserve:
                    self.failure = (
                        f"{free >> 20} MB are free on the disk of {self._writer.path}, "
                        f"{self._reserve >> 20} MB shall stay free"
                    )
                    with self._condition:
                        self._stop = True
                    return
            if stopped and not batch:
                return
