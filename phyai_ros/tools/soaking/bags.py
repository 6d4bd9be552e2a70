# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether a bag can be read up to its recorder's last second."""

from __future__ import annotations

from pathlib import Path

from phyai_ros.bags.reader import Bag as Reader
from phyai_ros.bags.reader import BagError
from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.tools.soaking.verdict import Bag


def check(path: Path, ended: float) -> Bag:
    """Read all of it. ended: s, wall clock, when its recorder ended or the disk was full."""
    newest, count = 0, 0
    try:
        with Reader(path) as bag:
            for message in bag.messages():
                newest, count = max(newest, message.time_ns), count + 1
    except BagError as error:
        return Bag(path.name, count, float("inf"), str(error))
    if not count:
        return Bag(path.name, 0, float("inf"), "no message in it")
    return Bag(path.name, count, ended - newest / NANOSECONDS)
