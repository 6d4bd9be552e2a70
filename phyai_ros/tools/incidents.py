# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a crash did to a run: when it was, and how long no chunk drove the arm; and the standstills
that people are warned of.

It may have been braked and held by commands all the while: a handoff that holds goes on sending.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from phyai_ros.control.states import State
from phyai_ros.control.told import GOES_ON, lasting, way_out
from phyai_ros.tools.recording import ACTING, Crash, Recording, Standstill

AFTERMATH = 15.0
"""A pause that begins within so many seconds of a crash is taken for its consequence."""
_PAUSE = 0.15
"""s; a shorter one is a late tick, not a pause."""
_UNHEARD = 0.5
"""s; for so long no tick was heard, whatever the handoff counts: it was started again, or its clock
was set."""


_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?")


def problems(recording: Recording) -> list[str]:
    """A line a crash and a kind of standstill, for people."""
    kinds: dict[str, list[Standstill]] = {}
    for stood in recording.standstills:
        kinds.setdefault(_NUMBER.sub("N", f"{stood.state.name}: {stood.reason}"), []).append(stood)
    lines = [_standing(recording, kind) for kind in kinds.values()]
    return [_line(recording, crash) for crash in recording.crashes] + lines


def stands(recording: Recording, at: float, state: State, reason: str) -> None:
    """The newest tick has another state or reason than the one before. at: s, wall clock."""
    out = way_out(state, reason)
    reason = lasting(reason)
    newest = recording.standstills[-1] if recording.standstills else None
    if newest is not None and newest.until is None:
        if (newest.state, newest.reason, newest.way_out) == (state, reason, out):
            return
        newest.until = at
    if out:
        recording.standstills.append(Standstill(at, state, reason, out))


def left_standing(recording: Recording) -> bool:
    """Whether the run ended in a standstill that only a person ends."""
    newest = recording.standstills[-1] if recording.standstills else None
    return newest is not None and newest.until is None and newest.way_out != GOES_ON


def restarts(recording: Recording) -> list[dict[str, Any]]:
    """For report.json. time: s since the first tick, None without ticks. not_driven: s, None
    where nothing drove the arm any more."""
    return [
        {
            "process": crash.process,
            "how": crash.how,
            "time": moment(recording, crash),
            "not_driven": not_driven(recording, crash),
        }
        for crash in recording.crashes
    ]


def moment(recording: Recording, crash: Crash) -> float | None:
    """s from the first tick, by the wall clock; below zero where it crashed before."""
    return crash.time - recording.ticks[0].sent if recording.ticks else None


def _standing(recording: Recording, kind: Sequence[Standstill]) -> str:
    first, last = kind[0], kind[-1]
    begin, end = recording.ticks[0].sent, recording.ticks[-1].sent
    lasted = sum((end if stood.until is None else stood.until) - stood.start for stood in kind)
    when = f"at {first.start - begin:.1f} s of the run, for {lasted:.1f} s"
    if len(kind) > 1:
        when = f"{len(kind)} times, first {when} in all"
    if recording.shared:
        when = "said by one of the handoffs that speak here"  # in turns: nothing is to be counted
    elif last.until is None:
        when += ", to the end of the run"
    return f"{first.state.name}: {first.reason} ({when}); {first.way_out}"


def not_driven(recording: Recording, crash: Crash) -> float | None:
    """The longest time (s) without a row of a chunk that the crash falls into or that begins soon
    after it, also one that lasts to the end of the run; 0.0 without one; None where none came any
    more."""
    acting = [t.sent for t in recording.ticks if t.state in ACTING]
    if not acting or acting[-1] <= crash.time:
        return None
    pauses = (
        after - before
        for before, after in itertools.pairwise([*acting, recording.ticks[-1].sent])
        if after > crash.time and before < crash.time + AFTERMATH
    )
    longest = max(pauses, default=0.0)
    return longest if longest > _PAUSE else 0.0


def tick_time(recording: Recording, crash: Crash) -> float:
    """The crash on the ticks' clock: the header stamp of the tick nearest before it."""
    sent = [t.sent for t in recording.ticks]
    place = max(0, bisect.bisect_right(sent, crash.time) - 1)
    return recording.ticks[place].time


def silences(recording: Recording) -> list[tuple[int, float]]:
    """(number of the tick in front, its tick time plus a period) of every stretch without a tick:
    no command went out in it, whatever the state was before."""
    times = np.array([t.time for t in recording.ticks])
    steps = np.diff(times)
    if not steps.size:
        return []
    missed = np.diff([t.missed_ticks for t in recording.ticks])
    period = float(np.median(steps))
    silent = (steps > 1.5 * period) & ((missed > 0) | (steps > _UNHEARD))
    return [(int(i), float(times[i] + period)) for i in np.flatnonzero(silent)]


def events(recording: Recording) -> list[tuple[float, str]]:
    """(tick time, what) of every restart and of every tick that starved or was missed, in order."""
    found = [(tick_time(recording, c), "restart") for c in recording.crashes if recording.ticks]
    for before, after in itertools.pairwise(recording.ticks):
        for counter, what in (("starved_ticks", "starved"), ("missed_ticks", "missed")):
            rise = max(0, getattr(after, counter) - getattr(before, counter))
            found += [(after.time, what)] * rise
    return sorted(found)


def window(recording: Recording, start: float, longest: float) -> tuple[float, float]:
    """The part (tick time, s) of a run that is worth showing: ``longest`` from ``start`` on, or
    around the first event where that lies outside. A restart is the first of events."""
    first, last = recording.ticks[0].time, recording.ticks[-1].time
    start = max(first, start)
    found = events(recording)
    telling = [t for t, what in found if what == "restart"] or [t for t, _ in found]
    if telling and not start <= telling[0] <= start + longest:
        start = max(first, min(telling[0] - longest / 3, last - longest))
    return start, min(last, start + longest)


def _line(recording: Recording, crash: Crash) -> str:
    at, pause = moment(recording, crash), not_driven(recording, crash)
    when = "" if at is None else f" at {at:.1f} s of the run" if at >= 0 else " before the run"
    if pause is None:
        then = "no chunk drove the arm after it"
    elif pause:
        then = f"no chunk drove the arm for {pause:.1f} s"
    else:
        then = "the arm was driven all the while"
    return f"{crash.process} {crash.how}{when} and was started again: {then}"
