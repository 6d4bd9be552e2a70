# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The line that shows a run at work; silent where there is no terminal."""

from __future__ import annotations

import re
import time

from rich.console import Console
from rich.status import Status
from rich.text import Text

from phyai_ros.tools.recording import Recording

_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?")
"""Not the one in wrist_1_joint."""


class Progress:
    """A context manager; ``starting`` and ``working`` may be called as often as one likes."""

    def __init__(self, console: Console) -> None:
        self._status = Status("starting", console=console, refresh_per_second=4)
        self._visible = console.is_terminal
        self._next = 0.0
        self._noted: set[str] = set()

    def __enter__(self) -> Progress:
        if self._visible:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._visible:
            self._status.stop()

    def starting(self, trouble: str) -> None:
        if self._due():
            self._show(f"starting: {trouble[:100]}" if trouble else "starting")

    def note(self, text: str) -> None:
        """A line of its own, above the progress; once for all that differ in a number only."""
        kind = _NUMBER.sub("N", text)
        if kind in self._noted:
            return
        self._noted.add(kind)
        self._status.console.print(text, style="yellow")

    def working(self, passed: float, duration: float | None, recording: Recording) -> None:
        if self._due():
            self._show(line(passed, duration, recording))

    def _show(self, text: str) -> None:
        self._status.update(Text(text))  # of a string rich would make markup

    def _due(self) -> bool:
        if not self._visible or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + 0.25
        return True


def line(passed: float, duration: float | None, recording: Recording) -> str:
    """One line: time, episodes, what the arm is told, the newest inference."""
    parts = [f"{passed:.0f} s" + (f" of {duration:.0f} s" if duration is not None else "")]
    outcomes = [e.success for e in recording.episodes if e.success is not None]
    if recording.episodes:
        parts.append(f"{sum(outcomes)}/{len(outcomes)} episodes succeeded")
        if recording.episodes[-1].end is None:
            parts.append(f'"{recording.episodes[-1].instruction}"')
    if recording.ticks:
        parts.append(recording.ticks[-1].state.name.lower())
    if recording.chunks:
        newest = recording.chunks[-1]
        parts.append(f"chunk {1000 * (newest.received - newest.observed):.0f} ms after its images")
    return " · ".join(parts)
