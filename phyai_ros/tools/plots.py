# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: what was commanded, by which chunk, in which state, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from phyai_ros.control.states import State
from phyai_ros.tools import incidents, plot_marks, report
from phyai_ros.tools.plot_style import FAINT, INK, LINES, STYLE
from phyai_ros.tools.recording import ACTING, ChunkSeen, Recording

LONGEST = 16.0
"""Seconds shown: more would be too dense to read."""

STATE_COLOURS = {
    State.WAITING: "#c9d1d9",
    State.RAMPING: "#f2c14e",
    State.EXECUTING: "#57b894",
    State.STARVED: "#d9534f",
    State.HOLDING: "#9db2c7",
    State.FAULT: "#7d1d1d",
}
NO_TICK = "#ffffff"
STAGE_COLOURS = {
    "wait": "#7d8894",
    "preprocess": "#9ecae1",
    "vision": "#4292c6",
    "prefix": "#08519c",
    "solver": "#f28e2b",
    "convert": "#e15759",
    "deliver": "#b6992d",
}


def timeline(recording: Recording, about: Mapping[str, Any], path: Path) -> list[str]:
    """Writes the picture; the names of the files written (none where nothing happened)."""
    commands, ticks = recording.commanded()
    if not ticks:
        return []
    # A second of the way in shows what came before the first action.
    start, end = incidents.window(recording, ticks[0].time - 1.0, LONGEST)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            5,
            1,
            figsize=(16, 10),
            sharex=True,
            height_ratios=(5.2, 1.1, 0.5, 2.0, 1.9),
            gridspec_kw={"hspace": 0.14},
        )
        arm, finger, band, bars, queue = axes
        _commands(arm, finger, recording, commands, start, end)
        _states(band, recording, start, end)
        _inference(bars, recording.chunks, start, end)
        _queue(queue, recording, start, end)
        for axis in axes:
            plot_marks.episode_edges(axis, recording.episodes, start, end)
            plot_marks.crashes(axis, recording, start, end)
        plot_marks.crash_names(band, recording, start, end)
        plot_marks.episode_titles(arm, recording.episodes, start, end)
        queue.set_xlim(0, end - start)
        queue.set_xlabel("seconds")
        figure.align_ylabels()
        _headline(figure, recording, about, start, end)
        figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.25, facecolor="white")
        plt.close(figure)
    return [path.name]


def _headline(
    figure: Any, recording: Recording, about: Mapping[str, Any], start: float, end: float
) -> None:
    name = " on ".join(str(about[k]) for k in ("model", "robot") if about.get(k)) or "phyai_ros"
    figure.text(0.125, 0.965, name, fontsize=17, fontweight="bold", va="bottom")
    numbers = report.build(recording, about)
    inference, ticks = numbers["inference"], numbers["ticks"]
    parts = []
    if (result := numbers["success"]) is not None:
        parts.append(f"{result['count']} of {result['of']} episodes succeeded")
    if inference["p50"] is not None:
        parts.append(
            f"inference {1e3 * inference['p50']:.0f} ms (p99 {1e3 * inference['p99']:.0f})"
        )
    parts.append(f"{ticks['starved']} starved ticks, {ticks['deadline_misses']} missed")
    if recording.crashes:
        parts.append(f"restarts: {len(recording.crashes)}")
    parts[-1] += " in the whole run"
    first = recording.ticks[0].time
    shown = f"shown: {start - first:.0f} to {end - first:.0f} s of {numbers['duration']:.0f} s"
    outside = sum(not start <= time <= end for time, _ in incidents.events(recording))
    parts.append(shown + (f", {outside} of these events outside" if outside else ""))
    figure.text(0.125, 0.948, "   ·   ".join(parts), fontsize=11, color="#5d6a76", va="bottom")


def _commands(
    arm: Axes,
    finger: Axes,
    recording: Recording,
    commands: np.ndarray,
    start: float,
    end: float,
) -> None:
    """Arm joints above, prismatic joints (by name) below; a faint line where a chunk takes over."""
    _, ticks = recording.commanded()
    times = np.array([t.time for t in ticks])
    inside = (times >= start) & (times <= end)
    names = recording.joint_names or tuple(f"joint {i}" for i in range(commands.shape[1]))
    pieces = [(a, b) for a, b in report.stretches(ticks) if inside[a:b].any()]
    colours = iter(LINES * 4)
    for column, name in enumerate(names):
        linear = "finger" in name or "gripper" in name
        axis, colour = (finger, INK) if linear else (arm, next(colours))
        label = name.removesuffix("_joint").replace("_", " ")
        for a, b in pieces:
            axis.plot(
                times[a:b] - start,
                1e3 * commands[a:b, column] if linear else commands[a:b, column],
                color=colour,
                lw=1.9,
                label=label,
                solid_capstyle="round",
            )
            label = "_"
    for tick in ticks:
        if tick.first_use and start <= tick.time <= end:
            for axis in (arm, finger):
                axis.axvline(tick.time - start, color="#b9c4ce", lw=0.7, zorder=0)
    arm.set_ylabel("commands, rad")
    arm.grid(axis="x", visible=False)
    finger.set_ylabel("finger,\nmm")
    finger.grid(axis="x", visible=False)
    arm.legend(loc="center left", bbox_to_anchor=(1.005, 0.5), handlelength=1.4)
    arm.text(
        1.012, 0.1, "faint line: a new\nchunk takes over\ndotted: a new episode",
        transform=arm.transAxes, fontsize=9, color=FAINT, va="top",
    )  # fmt: skip


def _states(axis: Axes, recording: Recording, start: float, end: float) -> None:
    seen: list[State | None] = []
    for a, b, state in spans(states(recording)):
        left, right = max(a, start), min(b, end)
        if right > left:
            colour = NO_TICK if state is None else STATE_COLOURS[state]
            axis.axvspan(left - start, right - start, color=colour, lw=0)
            seen.append(state)
    known = [(STATE_COLOURS[s], s.name.lower(), "none") for s in State if s in seen]
    known += [(NO_TICK, "no tick", "#7d8894")] * (None in seen)
    axis.set_yticks([])
    axis.set_ylabel("state", rotation=0, ha="right", va="center")
    axis.grid(visible=False)
    axis.legend(
        handles=[Patch(facecolor=c, label=name, edgecolor=edge) for c, name, edge in known],
        loc="center left",
        bbox_to_anchor=(1.005, 0.5),
        handlelength=1.0,
        handleheight=1.0,
        ncols=2 if len(set(seen)) > 2 else 1,
        fontsize=9,
        columnspacing=1.0,
    )


def states(recording: Recording) -> list[tuple[float, State | None]]:
    """(time, state) of every tick, and None from where there were no ticks."""
    samples: list[tuple[float, State | None]] = [(t.time, t.state) for t in recording.ticks]
    for number, time in reversed(incidents.silences(recording)):
        samples.insert(number + 1, (time, None))
    return samples


def spans(
    samples: Sequence[tuple[float, State | None]],
) -> list[tuple[float, float, State | None]]:
    """-> (from, to, state) of every stretch of one state."""
    result: list[tuple[float, float, State | None]] = []
    for i, (time, state) in enumerate(samples):
        until = samples[i + 1][0] if i + 1 < len(samples) else time
        if result and result[-1][2] is state:
            result[-1] = (result[-1][0], until, state)
        else:
            result.append((time, until, state))
    return result


def _inference(axis: Axes, chunks: Sequence[ChunkSeen], start: float, end: float) -> None:
    """A bar a chunk, from its observation to its arrival, in the colours of its stages."""
    lanes = 2
    for number, chunk in enumerate(chunks):
        if not start <= chunk.received <= end:
            continue
        lane = number % lanes
        known = {k: v for k, v in chunk.stages.items() if v == v}
        left = chunk.received - sum(known.values())
        axis.broken_barh(
            [(chunk.observed - start, chunk.received - chunk.observed)],
            (lane + 0.36, 0.28),
            color="#e6eaee",
        )
        for name, seconds in known.items():
            axis.broken_barh(
                [(left - start, seconds)], (lane + 0.14, 0.72), color=STAGE_COLOURS[name]
            )
            left += seconds
    axis.set_ylim(0, lanes)
    axis.set_yticks([])
    axis.set_ylabel("inference", rotation=0, ha="right", va="center")
    names = [n for n in STAGE_COLOURS if any(c.stages.get(n, 0) > 0 for c in chunks)]
    axis.legend(
        handles=[Patch(color=STAGE_COLOURS[n], label=n) for n in names]
        + [Patch(color="#e6eaee", label="since observed")],
        loc="center left",
        bbox_to_anchor=(1.005, 0.5),
        handlelength=1.0,
        handleheight=1.0,
        fontsize=9,
        ncols=2,
        columnspacing=1.0,
    )


def _queue(axis: Axes, recording: Recording, start: float, end: float) -> None:
    """Rows left, and the age of the observation behind the action."""
    times = np.array([t.time for t in recording.ticks]) - start
    acting = np.array([t.state in ACTING for t in recording.ticks])
    left = np.where(acting, [t.remaining for t in recording.ticks], 0)
    values = np.where(acting, [1e3 * t.action_age for t in recording.ticks], np.nan)
    silences = incidents.silences(recording)
    places = [number + 1 for number, _ in silences]
    times = np.insert(times, places, [time - start for _, time in silences])
    left, values = np.insert(left, places, 0), np.insert(values, places, np.nan)
    inside = (times >= 0) & (times <= end - start)
    times, left, values = times[inside], left[inside], values[inside]
    axis.fill_between(times, left, step="post", color="#57b894", alpha=0.25, lw=0)
    axis.step(times, left, where="post", color="#2f8f6b", lw=1.4)
    axis.set_ylabel("rows left", color="#2f8f6b")
    axis.set_ylim(0, None)
    age = axis.twinx()
    age.plot(times, values, color="#e4812a", lw=1.2)
    age.set_ylabel("action age, ms", color="#c46a17")
    age.set_ylim(0, None)
    age.grid(visible=False)
