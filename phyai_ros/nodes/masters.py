# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Commands that somebody else sends to the arm, heard on this node's own command topics.

Two publishers on one command topic make an arm jump between two plans. Whoever is only listed may
have been killed; one that is heard is alive.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
"""Seconds that this node listens before it sends its first command, from the start and from the
first message of anybody, which shows that discovery gets on here: a command comes every tick."""
LISTED = 3.0
"""Seconds from when another publisher is first listed: one that sends is heard in a part of them,
once it has discovered this node in its turn; one that only might send keeps nobody longer."""
LISTENING = "listening for others that command this arm"


class Masters:
    """Listens while somebody else is listed as a publisher of a command topic, and at the start: a
    node's own commands come back to it there, which costs time. What comes before this node's first
    command is another's, whoever sent it; after that, where rclpy does not tell who sent a message
    (before Kilted), or marks it in another way than the graph (Cyclone DDS), nothing is heard.

    publishers: of each of this node's, command topic and package/msg/Name; several may share a
    topic. on_heard: called with words that name topic and
    sender, at the first command of each since ``forget``. sending: whether this node has sent a
    command. Executor thread. Make it before this node's publishers, and call ``own`` when they are
    there.
    waits_for: why this node shall not send yet, for people; empty once it has listened for long
    enough.
    """

    def __init__(
        self,
        node: Any,
        publishers: Iterable[tuple[str, str]],
        on_heard: Callable[[str], None],
        sending: Callable[[], bool],
    ) -> None:
        self._node = node
        self._on_heard, self._sending = on_heard, sending
        resolved = [(node.resolve_topic_name(topic), kind) for topic, kind in publishers]
        self._types = dict(resolved)
        self._counts = Counter(topic for topic, _ in resolved)
        self._own: set[bytes] = {gid for t in self._types for gid in self._listed(t)}
        self._since = time.monotonic()
        self._met: float | None = None
        self._others: dict[bytes, float] = {}
        self.waits_for = LISTENING if self._types else ""
        self._heard: dict[bytes, str] = {}
        self._mine: dict[str, set[bytes]] = {topic: set() for topic in self._types}
        self._unlisted: set[bytes] = set()
        self._listening: dict[str, Any] = {}

    def own(self) -> None:
        """The publishers that came since the construction are this node's, but for one that was
        discovered at that moment: those that are heard first once this node sends are its own."""
        there = {gid for topic in self._types for gid in self._listed(topic)}
        self._own = there - self._own
        for topic in self._types:
            self._listen(topic)

    def restart(self) -> None:
        """Listen as at the start: this node has sent nothing for a while."""
        self._since, self._others = time.monotonic(), {}
        self.waits_for = LISTENING if self._types else ""
        self.forget()
        for topic in self._types:  # at once: discovery takes a part of the time
            self._listen(topic)

    def met(self) -> None:
        """A message of another process has come, whatever it was."""
        if self._met is None:
            self._met = time.monotonic()

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
        listen_on = bool(self.waits_for) or now - self._since < FIRST
        listed: dict[bytes, str] = {}
        for topic in self._types:
            others = {g: who for g, who in self._listed(topic).items() if g not in self._own}
            listed |= others
            if listen_on or others:
                self._listen(topic)
            elif topic in self._listening:
                self._node.destroy_subscription(self._listening.pop(topic))
        self._others = {gid: self._others.get(gid, now) for gid in listed}
        if self.waits_for:
            self.waits_for = self._waits(listed, now)

    def _waits(self, listed: Mapping[bytes, str], now: float) -> str:
        new = sorted({who for gid, who in listed.items() if now - self._others[gid] < LISTED})
        if new:
            return f"{LISTENING}: {', '.join(new)} may"
        heard_for = -1.0 if self._met is None else now - max(self._since, self._met)
        return "" if heard_for >= SETTLE else LISTENING

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
            if self._is_own(topic, gid):
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

    def _is_own(self, topic: str, gid: bytes) -> bool:
        mine = self._mine[topic]
        if gid in self._own and len(mine) < self._counts[topic]:
            mine.add(gid)
        return gid in mine

    def destroy(self) -> None:
        while self._listening:
            self._node.destroy_subscription(self._listening.popitem()[1])
