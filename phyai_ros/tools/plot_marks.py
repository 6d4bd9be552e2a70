# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What is written across a timeline: episodes, their instructions, and processes that crashed.

start, end: seconds of the recording that the axes show; x is seconds since ``start``.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from phyai_ros.tools import incidents
from phyai_ros.tools.plot_style import FAINT, INK
from phyai_ros.tools.recording import Episode, Recording

_CRASH = "#b3122a"


def episode_edges(axis: Axes, episodes: Sequence[Episode], start: float, end: float) -> None:
    for episode in episodes:
        if start < episode.start < end:
            axis.axvline(episode.start - start, color=INK, lw=1.0, ls=(0, (2, 3)))


def crashes(axis: Axes, recording: Recording, start: float, end: float) -> None:
    for crash in recording.crashes:
        time = incidents.tick_time(recording, crash)
        if start <= time <= end:
            axis.axvline(time - start, color=_CRASH, lw=1.8)


def crash_names(axis: Axes, recording: Recording, start: float, end: float) -> None:
    """Which process it was, over the state that followed."""
    for crash in recording.crashes:
        time = incidents.tick_time(recording, crash)
        if start <= time <= end:
            axis.text(
                time - start,
                1.04,
                f" {crash.process} crashed, restarted",
                transform=axis.get_xaxis_transform(),
                fontsize=9,
                fontweight="bold",
                color=_CRASH,
                va="bottom",
            )


def episode_titles(axis: Axes, episodes: Sequence[Episode], start: float, end: float) -> None:
    """The instruction over its episode, and what came of it."""
    marks = {True: ("✓", "#2f8f6b"), False: ("✗", "#c8413f"), None: ("…", FAINT)}
    for episode in episodes:
        left = max(episode.start, start)
        right = min(episode.end if episode.end is not None else end, end)
        if right - left < 0.02 * (end - start):
            continue
        mark, colour = marks[episode.success]
        room = int((right - left) / (end - start) * 130)
        text = _wrapped(episode.instruction, room) if room >= 10 else ""
        axis.text(
            (left + right) / 2 - start,
            1.015,
            f"{text} {mark}",
            transform=axis.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=9,
            color=colour,
            linespacing=1.15,
        )


def _wrapped(text: str, width: int) -> str:
    """At most three lines of ``width`` characters, by words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) > 3:
        lines = [*lines[:2], lines[2] + " …"]
    return "\n".join(lines)
