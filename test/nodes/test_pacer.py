# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The control thread's pacing: order and counting, never durations, decide."""

from __future__ import annotations

import threading
import time

from phyai_ros.nodes.pacer import Pacer


class Ticks:
    """Counts ticks and lets a test wait for the n-th."""

    def __init__(self) -> None:
        self.count = 0
        self._condition = threading.Condition()

    def __call__(self) -> None:
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def wait_for(self, count: int) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: self.count >= count, timeout=20)


def no_error(error: BaseException) -> None:
    raise error


def test_ticks_until_stopped_and_not_after():
    ticks = Ticks()
    pacer = Pacer(0.001, ticks, no_error)
    pacer.start()
    ticks.wait_for(5)
    pacer.stop()
    pacer.stop()
    after = ticks.count
    time.sleep(0.01)
    assert ticks.count == after


def test_a_tick_that_comes_late_says_how_late():
    ticks = Ticks()
    seen: list[float] = []

    def tick() -> None:
        seen.append(pacer.jitter)
        if len(seen) == 1:
            time.sleep(0.05)
        ticks()

    pacer = Pacer(0.02, tick, no_error)
    pacer.start()
    ticks.wait_for(2)
    pacer.stop()
    assert seen[1] >= 0.05 - 0.02 - 1e-3  # against the deadline that it missed, not the one after


def test_deadlines_that_pass_during_a_slow_tick_are_missed_not_made_up_for():
    starts: list[float] = []
    ticks = Ticks()

    def tick() -> None:
        starts.append(time.monotonic())
        if len(starts) == 1:
            time.sleep(0.11)
        ticks()

    pacer = Pacer(0.02, tick, no_error)
    pacer.start()
    ticks.wait_for(4)
    pacer.stop()
    assert pacer.missed >= 4  # deadlines at 20, 40, 60, 80 ms came during the first tick
    # no burst afterwards: the calls follow deadlines, one period apart or more
    elapsed = starts[-1] - starts[0]
    assert elapsed >= (pacer.missed + len(starts) - 1) * 0.02 - 0.02


def test_an_exception_ends_pacing_and_is_handed_over():
    caught: list[BaseException] = []
    done = threading.Event()

    def tick() -> None:
        raise RuntimeError("broken")

    def on_error(error: BaseException) -> None:
        caught.append(error)
        done.set()

    pacer = Pacer(0.001, tick, on_error)
    pacer.start()
    assert done.wait(20)
    pacer.stop()
    assert [str(error) for error in caught] == ["broken"]


def test_a_priority_that_is_not_given_is_said():
    ticks = Ticks()
    pacer = Pacer(0.001, ticks, no_error, realtime_priority=1000)  # above every system's maximum
    pacer.start()
    ticks.wait_for(1)
    pacer.stop()
    assert "real-time priority 1000 not given" in (pacer.refusal or "")


def test_a_machine_that_slept_is_a_process_that_stood_still(monkeypatch):
    """The steady clock stands meanwhile: the arm, which may be elsewhere by then, would have been
    commanded to go on from where it was."""
    slept, seen = [0.0], []
    clock = time.clock_gettime

    def with_sleep(which: int) -> float:
        return clock(which) + (slept[0] if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", with_sleep)
    ticks = Ticks()

    def tick() -> None:
        seen.append(pacer.jitter)
        slept[0] = 3600.0
        ticks()

    pacer = Pacer(0.02, tick, no_error)
    pacer.start()
    ticks.wait_for(3)
    pacer.stop()
    assert seen[1] >= 3599.0
    assert seen[2] < 3599.0
