# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ROS time as control wants it: float seconds that also pass between two /clock messages."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration

LONGEST_GAP = 0.1
"""Seconds of silence on /clock that are bridged; longer means that simulated time stands still."""

JUMP = 0.5
"""Seconds by which time must move on its own to be called a jump."""


class RosSeconds:
    """Call it for the node's time, from any thread. Simulated time is a staircase; the steady clock
    fills it in."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._step = 0
        self._since = 0.0
        self._given = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        if not self._clock.ros_time_is_active:
            return float(self._clock.now().nanoseconds / 1e9)
        with self._lock:  # a thread that read an earlier step must not come after one that did not
            return self._simulated()

    def steady(self) -> float:
        """Seconds of a clock that nobody sets; NaN while time is simulated, which need not keep to
        it."""
        return math.nan if self._clock.ros_time_is_active else time.monotonic()

    def _simulated(self) -> float:
        nanoseconds = self._clock.now().nanoseconds
        seconds = nanoseconds / 1e9
        steady = time.monotonic()
        if nanoseconds != self._step:
            if nanoseconds < self._step:
                self._given = 0.0  # time itself went back
            self._step, self._since = nanoseconds, steady
        # A simulator slower than real time is overtaken between two of its steps: wait for it.
        self._given = max(self._given, seconds + min(steady - self._since, LONGEST_GAP))
        return float(self._given)


def steady_timer(node: Any, period: float, callback: Callable[[], None]) -> Any:
    """A timer that also fires while simulated time stands still: for what watches and reports."""
    return node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


class JumpWatch:
    """Tells when the node's clock jumps.

    Simulated time reports its jumps through rclpy. The system's clock does not: ``check`` compares
    it with the steady clock and is called now and then.
    """

    def __init__(self, clock: Any, on_jump: Callable[[float], None]) -> None:
        self._clock = clock
        self._on_jump = on_jump
        self._offset = self._measure()
        limit = Duration(seconds=JUMP)
        self._handle = clock.create_jump_callback(
            JumpThreshold(
                min_forward=limit, min_backward=Duration(seconds=-JUMP), on_clock_change=True
            ),
            post_callback=lambda jump: on_jump(jump.delta.nanoseconds / 1e9),
        )

    def check(self) -> None:
        if self._clock.ros_time_is_active:
            return
        offset = self._measure()
        jump, self._offset = offset - self._offset, offset
        if abs(jump) > JUMP:
            self._on_jump(jump)

    def _measure(self) -> float:
        return float(self._clock.now().nanoseconds / 1e9 - time.monotonic())

    def destroy(self) -> None:
        self._handle.unregister()
