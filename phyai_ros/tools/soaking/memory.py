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
ROUND = 180.0
"""s after it, in which every kind of fault comes about once and costs what it costs once: a queue
that was longest beside the hogs, a first bag on a full disk. The early value is what nine tenths of
the samples in them are below."""
WINDOW = 15.0
"""s whose median is the late value."""
LEAST = 420.0
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
            early = [k for t, k in samples if SETTLING <= t - start <= SETTLING + ROUND]
            late = [k for t, k in samples if t >= end - WINDOW]
            if len(early) < 2:
                continue
            before = statistics.quantiles(early, n=10, method="inclusive")[-1]
            found = Memory(name, end - start, before, statistics.median(late))
            if name not in longest or found.seconds > longest[name].seconds:
                longest[name] = found
        return list(longest.values())
