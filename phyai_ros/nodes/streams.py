# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Subscriptions that know how they are doing: publishers, quality of service, age, refusals."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.qos import QoSProfile
from std_msgs.msg import String

from phyai_ros.nodes import endpoints, qos
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, EdgeLog, Status
from phyai_ros.nodes.message_info import informed, sent
from phyai_ros.nodes.message_types import type_name
from phyai_ros.nodes.refusals import Refusals

_REMEMBERED = 60.0


class Stream:
    """One subscription. ``callback`` may raise: a ValueError refuses the message by its text, any
    other exception is logged with its traceback; neither reaches the executor.

    timed: the callback also gets the message's age in seconds, since it was published where rclpy
    tells that (from Iron on), else 0.
    required: without it the node cannot work, so its absence is an error rather than a remark.
    stale_after: seconds without a message until diagnostics call it stale.
    """

    def __init__(
        self,
        node: Any,
        label: str,
        message_type: Any,
        topic: str,
        profile: QoSProfile,
        callback: Callable[..., None],
        log: EdgeLog,
        *,
        raw: bool = False,
        timed: bool = False,
        required: bool = True,
        stale_after: float = float("inf"),
    ) -> None:
        self.label = label
        self.received = 0
        self._node = node
        self._message_type = message_type
        self._profile = profile
        self._callback = callback
        self._required = required
        self._stale_after = stale_after
        self._there: set[bytes] = set()
        self._listed: bytes | None = None
        self._named: set[bytes] = set()
        self._replaced = False
        self._last = float("nan")
        self.heard: dict[bytes, float] = {}
        """Steady seconds of each publisher's newest message, by gid; empty where rclpy tells none.
        """
        self.sender = b""
        """Gid of whoever sent the message that is delivered now; empty where rclpy tells none."""
        self._timed = timed
        self._subscription = node.create_subscription(
            message_type, topic, informed(self._deliver_informed), profile, raw=raw
        )
        self.topic = self._subscription.topic_name
        self._refusals = Refusals(log, self.topic)
        self.refused = self._refusals.counts

    def deliver(self, message: Any, *age: float) -> None:
        """What the executor calls with each message."""
        self.received += 1
        self._last = time.monotonic()
        try:
            self._callback(message, *age)
        except ValueError as error:
            self._refusals.refuse(type(error).__name__, str(error))
        except Exception as error:
            text = f"{error}\n{traceback.format_exc()}"
            self._refusals.refuse(type(error).__name__, text, error=True)
        else:
            self._refusals.good()

    def _deliver_informed(self, message: Any, info: Any) -> None:
        if info.get("publisher_gid"):
            self._hear(bytes(info["publisher_gid"]["data"]))
        if not self._timed:
            self.deliver(message)
            return
        self.deliver(message, max(time.time() - sent(info), 0.0))

    def _hear(self, gid: bytes) -> None:
        self.sender = gid
        now = time.monotonic()
        if gid not in self.heard:  # those that left long ago are nobody's business
            self.heard = {g: at for g, at in self.heard.items() if now - at < _REMEMBERED}
        self.heard[gid] = now

    @property
    def age(self) -> float:
        """Seconds since the last message; NaN before the first."""
        return time.monotonic() - self._last

    def publishers(self) -> int:
        """How many publishers the topic has, compatible or not."""
        return int(self._node.count_publishers(self.topic))

    def arrivals(self) -> int:
        """How many publishers have appeared since the last call."""
        there = set(endpoints.publishers(self._node, self.topic))
        new, self._there = there - self._there, there
        return len(new)

    def deserted(self) -> bool:
        """Whether whoever sent the newest message has left the topic. Where that cannot be told,
        for some middleware marks messages in another way than the graph (Cyclone DDS) or not at all
        (Humble), whether everybody has. Ask now and then: who was never listed cannot leave."""
        there = endpoints.publishers(self._node, self.topic)
        newest = max(self.heard, key=self.heard.__getitem__, default=b"")
        named = {gid: name for gid, name in there.items() if endpoints.is_named(name)}
        came, self._named = named.keys() - self._named, set(named)
        if newest not in there:
            return True if newest == self._listed else not there
        if newest != self._listed:
            self._listed, self._replaced = newest, False
        elif newest in named:
            # Of two with one name the elder was killed: the middleware lists it for 20 s more.
            self._replaced |= any(named[gid] == named[newest] for gid in came)
        return self._replaced

    def trouble(self) -> str | None:
        """What keeps this stream from working right now, for people; None if nothing does."""
        found = self._node.get_publishers_info_by_topic(self.topic)
        problems = [p for p in map(self._mismatch, found) if p is not None]
        if not found:
            return f"no publisher on {self.topic}"
        if len(problems) == len(found):
            return "; ".join(problems)
        if (refusal := self._refusals.trouble.now) is not None:
            return f"refused: {refusal}"
        if self.received == 0:
            return f"{len(found)} publisher(s) on {self.topic}, but no message yet"
        if self.age > self._stale_after:
            return f"no message for {self.age:.1f} s on {self.topic}"
        return "; ".join(problems) or None

    def _mismatch(self, endpoint: Any) -> str | None:
        who = f"publisher {endpoints.full_name(endpoint)}"
        # Compared whole: what is no ROS node may call its type anything.
        if endpoint.topic_type != (wanted := type_name(self._message_type)):
            return f"{who} on {self.topic} sends {endpoint.topic_type}, expected {wanted}"
        offered = endpoint.qos_profile
        reason = qos.incompatibility(offered.reliability, offered.durability, self._profile)
        return f"{who} on {self.topic} has incompatible QoS, {reason}" if reason else None

    def status(self) -> Status:
        refusal, trouble = self._refusals.trouble.lately, self.trouble()
        if refusal is not None and f"refused: {refusal}" != trouble:  # a good one has come since
            trouble = "; ".join(filter(None, (trouble, f"refused: {refusal}")))
        level = OK if trouble is None else ERROR if self._required else WARN
        values = {
            "topic": self.topic,
            "received": self.received,
            "age": self.age,
            "refused": self.refused,
        }
        told = partial(self._refusals.trouble.told, refusal)
        return Status(self.label, level, trouble or "ok", values, told)

    def destroy(self) -> None:
        self._node.destroy_subscription(self._subscription)


def instructions(node: Any, callback: Callable[[String], None], log: EdgeLog) -> Stream:
    """The task in words, which a policy may do without."""
    profile = qos.instruction()
    return Stream(
        node, "instruction", String, "instruction", profile, callback, log, required=False
    )
