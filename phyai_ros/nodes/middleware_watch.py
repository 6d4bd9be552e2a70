# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A process whose middleware stands still is ended, so that a new one is started.

Fast DDS 3 has a rare deadlock: a thread that removes what a peer left behind waits, with the
participant's lock, for the event thread (``dds.ev.<n>``), which waits for that lock in order to
announce the participant. Nothing is received any more, ever; the process looks alive. It was seen
once, beside much other work, when processes came and went. Nobody can undo it from inside.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

STILL = 20.0
"""Seconds without a step of the event thread, which has one at least every announcement: 1 s with
this package's profile, 3 s by default."""
_LEARNED = 5
"""Looks that saw a step, after which a thread's rhythm is known."""
_SLOWER = 5.0
"""So many times its longest pause of before is no pause any more: a profile may announce rarely."""
_PERIOD = 2.0
"""Seconds between two looks."""


class Rhythm:
    """Whether a thread that runs now and then has stopped. Times: seconds of a steady clock."""

    def __init__(self, now: float, count: int) -> None:
        self._count, self._changed, self._looked = count, now, now
        self._steps, self._longest = 0, 0.0

    def still(self, now: float, count: int) -> float:
        """Seconds for which it has stood still, 0 while that is a pause as others before.
        count: how often it was switched away from, ever."""
        if now - self._looked > 3.0 * _PERIOD:  # this process stood still itself
            self._changed = now
        self._looked = now
        if count != self._count:
            self._longest = max(self._longest, now - self._changed)
            self._steps += 1
            self._count, self._changed = count, now
        pause = now - self._changed
        known = self._steps >= _LEARNED
        return pause if known and pause > max(STILL, _SLOWER * self._longest) else 0.0


def event_threads(tasks: Path = Path("/proc/self/task")) -> dict[str, tuple[str, int]]:
    """Thread id -> (name, how often it was switched away from) of every participant's event
    thread; none where there is no /proc, or another middleware."""
    found = {}
    for task in tasks.iterdir() if tasks.is_dir() else ():
        try:
            name = (task / "comm").read_text().strip()
            if not name.startswith("dds.ev."):
                continue
            lines = (task / "status").read_text().splitlines()
        except OSError:  # it ended meanwhile
            continue
        found[task.name] = (name, sum(int(x.split()[1]) for x in lines if "ctxt_switches" in x))
    return found


class MiddlewareWatch:
    """Looks every two seconds, on a thread of its own, until ``stop``; calls ``stuck`` with words
    for people when an event thread has stopped."""

    def __init__(self, stuck: Callable[[str], None]) -> None:
        self._stuck = stuck
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="middleware watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rhythms: dict[str, Rhythm] = {}
        while not self._ended.wait(_PERIOD):
            now, threads = time.monotonic(), event_threads()
            rhythms = {t: rhythms.get(t) or Rhythm(now, count) for t, (_, count) in threads.items()}
            for thread, (name, count) in threads.items():
                if still := rhythms[thread].still(now, count):
                    self._stuck(
                        f"the middleware's thread {name} has stood still for {still:.0f} s: Fast "
                        "DDS has locked itself up, nothing is received any more"
                    )

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def end_process(text: str) -> None:
    """By a signal, for which ``up`` and the launch file start it again: nothing that talks to the
    middleware on the way out would come back."""
    print(f"fatal: {text}; this process ends itself", file=sys.stderr, flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.abort()
