# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What time it was for the nodes while a bag was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phyai_ros.bags.reader import Bag, BagError, BagMessage
from phyai_ros.nodes import convert
from phyai_ros.nodes.cdr import NANOSECONDS

LONGEST_GAP = 0.1
"""Seconds of silence on /clock that are bridged, as nodes.clock does live."""
JUMP = 0.5
"""Seconds by which simulated time must move on its own to be called a jump, as live."""
_CLOCK = "/clock"


@dataclass(frozen=True)
class BagClock:
    """simulated: the nodes took their time from /clock; else from the system's clock, which is
    that of the log. topics: what it needs to see of the bag."""

    simulated: bool

    @property
    def topics(self) -> tuple[str, ...]:
        return (_CLOCK,) if self.simulated else ()

    @classmethod
    def of(cls, bag: Bag, sensors: Sequence[str]) -> BagClock:
        """Which clock stamped the sensors: the one that the first stamp beside a /clock message is
        nearer to. Log time where the bag has no /clock."""
        if _CLOCK not in bag.topics or not bag.topics[_CLOCK].count:
            return cls(False)
        time_ns: int | None = None
        for message in bag.messages({_CLOCK, *(s for s in sensors if s in bag.topics)}):
            if message.topic == _CLOCK:
                time_ns = _clock_ns(bag, message)
            elif time_ns is not None:
                stamp = _stamp_ns(bag, message)
                if stamp > 0:
                    return cls(abs(stamp - time_ns) <= abs(stamp - message.time_ns))
        return cls(False)

    def start(self) -> Reading:
        return Reading(self.simulated)


class Reading:
    """The clock on its way through the bag. now: seconds; 0.0 before the first /clock, as live."""

    def __init__(self, simulated: bool) -> None:
        self.now = 0.0
        self._simulated = simulated
        self._step: int | None = None
        self._since = 0

    def advance(self, message: BagMessage, bag: Bag) -> float:
        """Move on to a message; seconds by which the clock jumped there, 0.0 normally."""
        if not self._simulated:
            self.now = convert.ns_to_seconds(message.time_ns)
            return 0.0
        jump = 0.0
        if message.topic == _CLOCK:
            step = _clock_ns(bag, message)
            if self._step is not None and abs(step - self._step) >= JUMP * NANOSECONDS:
                jump = (step - self._step) / NANOSECONDS
            self._step, self._since = step, message.time_ns
        if self._step is None:
            return 0.0
        passed = min((message.time_ns - self._since) / NANOSECONDS, LONGEST_GAP)
        self.now = convert.ns_to_seconds(self._step) + max(passed, 0.0)
        return jump


def _clock_ns(bag: Bag, message: BagMessage) -> int:
    try:
        return convert.stamp_to_ns(bag.decode(message).clock)
    except AttributeError as error:
        raise BagError(f"{bag.path}: {message.topic} is no rosgraph_msgs/Clock: {error}") from error


def _stamp_ns(bag: Bag, message: BagMessage) -> int:
    """0 where the message has no header."""
    header = getattr(bag.decode(message), "header", None)
    return 0 if header is None else convert.stamp_to_ns(header.stamp)
