# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One DDS participant of ``phyai-ros record`` and its raw subscriptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from phyai_ros.nodes.message_info import informed
from phyai_ros.nodes.message_types import message_class
from phyai_ros.nodes.pacer import raise_others
from phyai_ros.nodes.participant import Participant
from phyai_ros.nodes.recorded_qos import to_rosbags

RECEIVING_THREADS = "dds.shm."
"""Fast DDS's, which take the lock of their port in shared memory, as every publisher to it does."""
RECEIVING_PRIORITY = 1
"""Real-time: above all that is not."""
_OFTEN = 0.2
"""Seconds between two looks at the graph."""


class Ear:
    """Subscribes to each of its topics when its publisher appears, with a quality of service that
    the publisher offers, so that everything is heard and nobody is slowed down.

    expected: type and quality of service of topics that are listened to before a publisher appears.
    add_topic: (name, type, rosbags' Qos) of each that is heard; offer: (name, ns, serialised). Both
    are called on this ear's thread. node: a ROS node for others' use too, until ``start``.
    refusal: why the receiving threads have no real-time priority, for people; or None.
    """

    def __init__(
        self,
        name: str,
        topics: Sequence[str],
        expected: Mapping[str, tuple[str, QoSProfile]],
        add_topic: Callable[[str, str, Sequence[Any]], None],
        offer: Callable[[str, int, bytes], None],
    ) -> None:
        self.refused: dict[str, str] = {}
        """Topic -> why it is not recorded, for people."""
        self.subscriptions: dict[str, Any] = {}
        self.topics = topics
        self._expected = expected
        self._add_topic = add_topic
        self._offer = offer
        self._here = Participant(name, rosout=False)
        self.node = self._here.node
        self.refusal = raise_others(RECEIVING_PRIORITY, RECEIVING_THREADS)

    def start(self) -> None:
        self._look()
        self.node.create_timer(_OFTEN, self._look)
        self._here.start()

    def call(self, function: Callable[[], Any]) -> None:
        """Have it run on the ear's thread."""
        self._here.executor.create_task(function)

    def close(self) -> None:
        self._here.close()

    def _look(self) -> None:
        for topic in self.topics:
            if topic in self.subscriptions:
                continue
            name = "/" + topic.lstrip("/")
            found = self.node.get_publishers_info_by_topic(name)
            if found:
                offered = [p.qos_profile for p in found]
                self._subscribe(name, topic, found[0].topic_type, offered)
            elif name in self._expected:
                type_, profile = self._expected[name]
                self._subscribe(name, topic, type_, [profile])

    def _subscribe(self, name: str, topic: str, type_: str, offered: Sequence[QoSProfile]) -> None:
        try:
            class_ = message_class(type_)
            kept = [to_rosbags(profile) for profile in offered]
        except ValueError as error:
            self.refused[topic] = f"{name}: not recorded: {error}"
            self.subscriptions[topic] = None
            return
        self._add_topic(name, type_, kept)

        def callback(data: bytes, info: Mapping[str, int]) -> None:
            stamp = info.get("received_timestamp", 0) or time.time_ns()
            self._offer(name, stamp, data)

        self.subscriptions[topic] = self.node.create_subscription(
            class_, name, informed(callback), _profile(offered), raw=True
        )


def _profile(offered: Sequence[QoSProfile]) -> QoSProfile:
    """What every publisher of a topic can serve; deep, as a recorder wants every message."""
    reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    lasting = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=200,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if lasting else DurabilityPolicy.VOLATILE,
    )
