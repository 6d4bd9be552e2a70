# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros record`` beside a run: bags one after the other, each read when it has ended."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.tools.soaking import bags
from phyai_ros.tools.soaking.children import Child
from phyai_ros.tools.soaking.verdict import Bag

SPLIT_MB = 100
"""After so much the recorder goes on in the next bag."""
RESERVE_MB = 8
BEGUN = 100_000
"""Bytes of a bag that are more than what it begins with."""
STOPPING = 15.0
CLOSING = 3.0
"""s after the next bag has begun in which one may still be being finished."""


class Recordings:
    """folder: where the bags go; each is removed once it has been read."""

    def __init__(self, robot: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self.checked: list[Bag] = []
        self._robot, self._folder, self._log = robot, folder, log
        self._environment = environment
        self._number = 0
        self._ends: list[float] = []
        self._seen: dict[Path, float] = {}
        self._child: Child | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.running else None

    def start(self) -> None:
        self._number += 1
        words = ["phyai_ros.tools", "record", "--robot", self._robot, "--keep-going"]
        words += ["--out", str(self._folder / f"bag{self._number}")]
        words += ["--reserve", str(RESERVE_MB), "--split", str(SPLIT_MB)]
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

    def recording(self) -> bool:
        """Whether messages have come into the newest bag."""
        newest = max(self._folder.glob("*"), key=_order, default=None)
        files = () if newest is None else newest.glob("*")
        try:
            return sum(file.stat().st_size for file in files) >= BEGUN
        except FileNotFoundError:  # renamed just now
            return False

    def check(self) -> None:
        """Read and remove every bag that has ended."""
        bags_ = sorted(self._folder.iterdir(), key=_order)
        for path, next_ in itertools.zip_longest(bags_, bags_[1:]):
            if self.pid is not None:
                if next_ is None:
                    return  # it is being written
                seen = self._seen.setdefault(next_, time.monotonic())
                if time.monotonic() - seen < CLOSING:
                    return  # this one may still be being closed
            start = None if next_ is None else _started(next_)
            self.checked.append(bags.check(path, [*self._ends, *([start] if start else [])]))
            shutil.rmtree(path)


def _order(path: Path) -> tuple[int, int]:
    """bag2_3 -> (2, 3)."""
    number, _, part = path.name.removeprefix("bag").partition("_")
    return int(number), int(part or 1)


def _started(path: Path) -> float | None:
    """s, wall clock, of a bag's first message; None where its metadata has none."""
    try:
        text = (path / "metadata.yaml").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    information = yaml.safe_load(text)["rosbag2_bagfile_information"]
    nanoseconds = information["starting_time"]["nanoseconds_since_epoch"]
    return float(nanoseconds) / NANOSECONDS or None
