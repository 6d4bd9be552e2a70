# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Publishers for ``phyai-ros play``: serialised bytes out, as they came in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from rclpy.duration import Duration
from rosgraph_msgs.msg import Clock

from phyai_ros.bags.reader import Bag
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.message_types import message_class
from phyai_ros.nodes.participant import Participant
from phyai_ros.nodes.recorded_qos import from_rosbags

_CLOCK = "/clock"


class Player:
    """Raises ValueError for a type that is not installed here.

    clock: publish the bag's time: its own /clock if it has one, else the log's, ahead of each
    message.
    """

    def __init__(self, bag: Bag, topics: Sequence[str], *, clock: bool) -> None:
        self._bag = bag
        self._own_clock = clock and not (_CLOCK in bag.topics and bag.topics[_CLOCK].count)
        self._topics = sorted({*topics, *([_CLOCK] if clock and not self._own_clock else [])})
        classes = {topic: message_class(bag.topics[topic].type) for topic in self._topics}
        self._here = Participant(f"phyai_play_{os.getpid()}", rosout=False)
        self._publishers: dict[str, Any] = {
            topic: self._here.node.create_publisher(
                class_, topic, from_rosbags(self._bag.topics[topic].qos)
            )
            for topic, class_ in classes.items()
        }
        self._clock = None
        if self._own_clock:
            self._clock = self._here.node.create_publisher(Clock, _CLOCK, qos.clock())

    def play(self, rate: float, delay: float, duration: float, stop: threading.Event) -> int:
        """Messages published, until the bag or ``stop`` ends it. rate: times real time. delay:
        seconds to wait first. duration: seconds of the bag, 0 for all. Raises BagError."""
        stop.wait(delay)
        start: tuple[float, int] | None = None
        count = 0
        for message in self._bag.messages(self._topics):
            if start is None:
                start = time.monotonic(), message.time_ns
            if duration and message.time_ns >= start[1] + duration * 1e9:
                break
            due = start[0] + (message.time_ns - start[1]) / 1e9 / rate
            wait = due - time.monotonic()
            if wait > 0:
                stop.wait(wait)
            if stop.is_set():
                break
            if self._clock is not None:
                now = Clock()
                convert.set_time(now.clock, message.time_ns)
                self._clock.publish(now)
            self._publishers[message.topic].publish(message.data)
            count += 1
        self._flush()
        return count

    def _flush(self) -> None:
        """Let reliable subscribers have what is on its way."""
        for publisher in self._publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=1))

    def close(self) -> None:
        self._here.close()
