# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The memory that is a process's own, over its life."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from phyai_ros.tools.soaking.verdict import Memory

SETTLING = 180.0
"""s of a process's life before its memory counts: imports, the checkpoint, histories
of bounded length."""
WINDOW = 15.0
"""s whose median is the early, and the late, value."""
LEAST = 240.0
"""s a process must have lived to be shown."""


def own(pid: int) -> int | None:
    """KiB resident, without what is shared with the middleware, which has its own bound. None:
    gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "RssAnon" not in fields:
        return None  # it has ended and waits for its parent
    parts = (fields.get(name, "0 kB") for name in ("RssAnon", "RssFile", "VmSwap"))
    return sum(int(part.split()[0]) for part in parts)


class MemoryLog:
    """Samples by process; ``lives`` is what they come to."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)

    def add(self, name: str, pid: int, time: float, kib: int) -> None:
        self._samples[name, pid].append((time, kib))

    def rows(self) -> Iterator[str]:
        """As comma-separated values with a heading, oldest first of each process."""
        yield "process,pid,time,kib"
        for (name, pid), samples in self._samples.items():
            yield from (f"{name},{pid},{time:.1f},{kib}" for time, kib in samples)

    def lives(self) -> list[Memory]:
        """Of each process the longest life, where that is long enough to show."""
        longest: dict[str, Memory] = {}
        for (name, _), samples in self._samples.items():
            start, end = samples[0][0], samples[-1][0]
            if end - start < LEAST:
                continue
            early = [k for t, k in samples if SETTLING <= t - start <= SETTLING + WINDOW]
            late = [k for t, k in samples if t >= end - WINDOW]
            if not early:
                continue
            found = Memory(name, end - start, statistics.median(early), statistics.median(late))
            if name not in longest or found.seconds > longest[name].seconds:
                longest[name] = found
        return list(longest.values())
