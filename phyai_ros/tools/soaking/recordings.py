# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros record`` beside a run: bags one after the other, each read when it has ended."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from phyai_ros.tools.soaking import bags
from phyai_ros.tools.soaking.children import Child
from phyai_ros.tools.soaking.verdict import Bag

LARGEST = 150 << 20
"""Bytes after which a bag is ended and the next one begun."""
RESERVE_MB = 8
STOPPING = 15.0


class Recordings:
    """folder: where the bags go; each is removed once it has been read."""

    def __init__(self, robot: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self.checked: list[Bag] = []
        self._robot, self._folder, self._log = robot, folder, log
        self._environment = environment
        self._number = 0
        self._ends: list[float] = []
        self._child: Child | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.running else None

    def start(self) -> None:
        self._number += 1
        words = ["phyai_ros.tools", "record", "--robot", self._robot, "--keep-going"]
        words += ["--out", str(self._folder / f"bag{self._number}"), "--reserve", str(RESERVE_MB)]
        self._child = Child(words, self._environment, self._log)

    def kill(self) -> None:
        """As the out-of-memory killer does it."""
        assert self._child is not None
        self._child.kill()
        self._ends.append(time.time())

    def disk_full(self, since: float) -> None:
        """The bag that is being written ends, and the recorder goes on in the next."""
        self._ends.append(since)

    def stop(self) -> bool:
        """Whether it ended when asked to."""
        assert self._child is not None
        asked = time.time()
        done = self._child.stop(signal.SIGINT, STOPPING)
        self._ends.append(asked)
        return done

    def bytes(self) -> int:
        files = [p for p in self._folder.rglob("*") if p.is_file()]
        return sum(p.stat().st_size for p in files)

    def check(self) -> None:
        """Read and remove every bag that has ended."""
        ended = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        if self.pid is not None:
            ended = ended[:-1]
        for path, end in zip(ended, self._ends, strict=False):
            self.checked.append(bags.check(path, end))
            shutil.rmtree(path)
        del self._ends[: len(ended)]
