# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What became of the processes of a run, as a line of /diagnostics: nobody else hears one die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from phyai_ros.nodes.diagnostics import OK, WARN, Status
from phyai_ros.tools.recording import Crash

RECENT = 10.0
"""Seconds for which a crash is a warning."""


def status(crashes: Sequence[Crash], now: float) -> Status:
    """crashes: those that were started again, oldest first. now: s, wall clock."""
    counts = Counter(crash.process for crash in crashes)
    recent = {c.process: c for c in crashes if now - c.time < RECENT}
    told = [
        # The number makes the second death of one process another message than the first.
        f"{name} {crash.how} and is started again (restart {counts[name]})"
        for name, crash in recent.items()
    ]
    text = "; ".join(told) or (f"{len(crashes)} restarts" if crashes else "ok")
    values = {f"restarts of {name}": count for name, count in counts.items()}
    return Status("processes", WARN if told else OK, text, values)
