# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A thread that wakes at absolute deadlines of the steady clock.

An rclpy timer shares its executor with every subscription, so a burst of messages delays it; this
thread only competes for the interpreter lock, and the switch interval bounds that.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_SWITCH_INTERVAL = 0.0002
"""Seconds until a waiting thread gets the interpreter lock (Python's default: 0.005)."""


class Pacer:
    """Calls ``tick()`` once a period until stopped.

    missed: deadlines that passed without a call. jitter: seconds, start of the newest call against
    its deadline. tick must not raise; if it does, pacing ends and ``on_error`` gets the exception.
    """

    def __init__(
        self,
        period: float,
        tick: Callable[[], None],
        on_error: Callable[[BaseException], None],
        *,
        realtime_priority: int = 0,
    ) -> None:
        self.period = period
        self.missed = 0
        self.jitter = math.nan
        self.refusal: str | None = None
        """Why the real-time priority was not given, for people."""
        self._tick = tick
        self._on_error = on_error
        self._priority = realtime_priority
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="phyai_control", daemon=True)

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL)
        # What exists by now stays: later collections only look at what ticks leave behind.
        gc.collect()
        gc.freeze()
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Returns after the tick that is under way; safe to call twice and from the tick."""
        self._stop = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        self.refusal = raise_priority(self._priority)
        deadline = _now()
        while not self._stop:
            now = _now()
            if now < deadline:
                time.sleep(deadline - now)
                now = _now()
            self.jitter = now - deadline
            late = math.floor(self.jitter / self.period)
            if late > 0:
                self.missed += late
                deadline += late * self.period
            try:
                self._tick()
            except BaseException as error:
                self._on_error(error)
                return
            deadline += self.period


def _now() -> float:
    """Seconds of the steady clock that goes on while the machine sleeps: no command is sent then
    either, and the arm has come to rest, or elsewhere."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def raise_priority(priority: int, thread: int = 0) -> str | None:
    """Give a thread SCHED_FIFO ``priority``; 0 leaves it alone. thread: its native id, 0 the
    calling one. What it starts later does not inherit. Why it was not given, for people, or None.
    """
    if priority <= 0:
        return None
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(thread, policy, os.sched_param(priority))
    except OSError as error:
        return (
            f"real-time priority {priority} not given: {error.strerror}; raise this user's rtprio "
            "limit (/etc/security/limits.conf), or ask for 0"
        )
    return None


def raise_others(priority: int, named: str = "") -> str | None:
    """``raise_priority`` for every thread of this process that is still scheduled as usual, the
    middleware's among them: one that waits for a core while it holds a lock, or the interpreter's,
    makes the control thread wait with it. named: how the names of those threads begin."""
    refusal = None
    for thread in map(int, os.listdir("/proc/self/task") if priority > 0 else ()):
        try:
            name = Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8")
            if name.startswith(named) and os.sched_getscheduler(thread) == os.SCHED_OTHER:
                refusal = raise_priority(priority, thread) or refusal
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
    return refusal
