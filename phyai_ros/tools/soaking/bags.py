# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether a bag can be read up to its recorder's last second."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phyai_ros.bags.reader import Bag as Reader
from phyai_ros.bags.reader import BagError
from phyai_ros.nodes.cdr import NANOSECONDS
from phyai_ros.tools.soaking.verdict import Bag


def check(path: Path, ends: Iterable[float]) -> Bag:
    """Read all of it. ends: s, wall clock, when its recorder, or the one of a bag before or after
    it, ended, ran out of disk, or went on in the next bag: the first within it is its own."""
    oldest, newest, count = float("inf"), 0.0, 0
    try:
        with Reader(path) as bag:
            for message in bag.messages():
                at = message.time_ns / NANOSECONDS
                oldest, newest, count = min(oldest, at), max(newest, at), count + 1
    except BagError as error:
        return Bag(path.name, count, float("inf"), str(error))
    if not count:
        return Bag(path.name, 0, float("inf"), "no message in it")
    end = min((e for e in ends if e > oldest), default=newest)
    return Bag(path.name, count, max(0.0, end - newest))
