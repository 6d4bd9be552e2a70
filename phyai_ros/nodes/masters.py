# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Commands that somebody else sends to the arm, heard on this node's own command topics.

Two publishers on one command topic make an arm jump between two plans. Whoever is only listed may
have been killed; one that is heard is alive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.qos import QoSProfile, ReliabilityPolicy

from phyai_ros.nodes import endpoints
from phyai_ros.nodes.message_info import informed
from phyai_ros.nodes.message_types import message_class

FIRST = 5.0
"""Seconds from the start for which this node listens without anybody else being listed."""
SETTLE = 0.8
"""Seconds from the start, and from when another publisher is first listed, that this node listens
before it sends its first command: a command comes every tick, discovery takes a part of it."""


class Masters:
    """Listens while somebody else is listed as a publisher of a command topic, and at the start: a
    node's own commands come back to it there, which costs time. What comes before this node's first
    command is another's, whoever sent it; after that, where rclpy does not tell who sent a message
    (before Kilted), or marks it in another way than the graph (Cyclone DDS), nothing is heard.

    topics: command topic -> package/msg/Name. on_heard: called with words that name topic and
    sender, at the first command of each since ``forget``. sending: whether this node has sent a
    command. Executor thread. Make it before this node's publishers, one a topic, and call ``own``
    when they are there.
    settled: whether this node has listened for long enough to send; any thread.
    """

    def __init__(
        self,
        node: Any,
        topics: Mapping[str, str],
        on_heard: Callable[[str], None],
        sending: Callable[[], bool],
    ) -> None:
        self._node = node
        self._on_heard, self._sending = on_heard, sending
        self._types = {node.resolve_topic_name(topic): kind for topic, kind in topics.items()}
        self._own: set[bytes] = {gid for t in self._types for gid in self._listed(t)}
        self._since = time.monotonic()
        self._others: dict[bytes, float] = {}
        self.settled = not self._types
        self._heard: dict[bytes, str] = {}
        self._mine: dict[str, bytes] = {}
        self._unlisted: set[bytes] = set()
        self._listening: dict[str, Any] = {}

    def own(self) -> None:
        """The publishers that came since the construction are this node's, but for one that was
        discovered at that moment: the first that is heard once this node sends is its own."""
        there = {gid for topic in self._types for gid in self._listed(topic)}
        self._own = there - self._own
        for topic in self._types:
            self._listen(topic)

    def forget(self) -> None:
        """What was heard before no longer counts: nothing was commanded then."""
        self._heard = {}

    def heard(self) -> str | None:
        """Who else has sent commands since ``forget``, for people."""
        return "; ".join(dict.fromkeys(self._heard.values())) or None

    def look(self) -> None:
        """Now and then, for it asks the ROS graph: begin or end to listen."""
        self._unlisted.clear()
        now = time.monotonic()
        starting = now - self._since < FIRST
        for topic in self._types:
            others = [gid for gid in self._listed(topic) if gid not in self._own]
            for gid in others:
                self._others.setdefault(gid, now)
            if starting or others:
                self._listen(topic)
            elif topic in self._listening:
                self._node.destroy_subscription(self._listening.pop(topic))

        newest = max(self._others.values(), default=self._since)
        self.settled = self.settled or now - max(self._since, newest) >= SETTLE

    def _listed(self, topic: str) -> dict[bytes, str]:
        return endpoints.publishers(self._node, topic)

    def _listen(self, topic: str) -> None:
        if topic in self._listening:
            return
        # It keeps no publisher waiting, this node's least of all.
        profile = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        with suppress(ValueError):  # its messages are not installed: the output has said so
            self._listening[topic] = self._node.create_subscription(
                message_class(self._types[topic]),
                topic,
                informed(partial(self._on_command, topic)),
                profile,
                raw=True,
            )

    def _on_command(self, topic: str, message: bytes, info: Mapping[str, Any]) -> None:
        gid = bytes((info.get("publisher_gid") or {}).get("data", b""))
        if gid in self._heard:
            return
        if self._sending():
            if not gid or gid in self._unlisted:
                return
            if gid in self._own and self._mine.setdefault(topic, gid) == gid:
                return
        who = self._listed(topic).get(gid)
        if who is None and self._sending():  # not yet, or never: then it may be this node itself
            self._unlisted.add(gid)
            return
        if who is None or not endpoints.is_named(who):
            who = "another node"
        text = f"{who} sends commands on {topic} too: two masters make the arm jump"
        self._heard[gid] = text
        self._on_heard(text)

    def destroy(self) -> None:
        while self._listening:
            self._node.destroy_subscription(self._listening.popitem()[1])


def listeners(node: Any, publisher: Any) -> int:
    """How many subscriptions a publisher reaches, those of its own node left out."""
    own = sum(s.topic_name == publisher.topic_name for s in node.subscriptions)
    return int(publisher.get_subscription_count()) - own
