# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who else publishes where one publisher is meant to: a second master, policy or joint driver."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phyai_ros.nodes import endpoints
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, EdgeLog, Status
from phyai_ros.nodes.ghosts import RECENT, Endpoint, Living

HEARD = "commands of others"
"""A value of the status: who else was heard commanding the arm."""
MOST_SETS = 64
"""Kinds of joint state that are told apart; a publisher may send ever new ones."""


class Rivals:
    """commands: topic of each of this node's publishers of commands. own: 0 where it only would
    publish there, else 1. chunks: the policy's topic. joints: topics of joint states. masters: who
    else was heard commanding the arm, for people. Executor thread."""

    def __init__(
        self,
        node: Any,
        log: EdgeLog,
        commands: Sequence[str],
        own: int,
        chunks: str,
        joints: Sequence[str],
        masters: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._node = node
        self._masters = masters
        self._log = log
        outputs = Counter(node.resolve_topic_name(topic) for topic in commands)
        self._own = {topic: own * count for topic, count in outputs.items()}
        self._commands = list(outputs)
        self._chunks = node.resolve_topic_name(chunks)
        self._joints = {topic: node.resolve_topic_name(topic) for topic in joints}
        self._sets: dict[str, dict[tuple[str, ...], float]] = {topic: {} for topic in joints}
        name = endpoints.own_name(node)
        self._living = {topic: Living(name, count) for topic, count in outputs.items()}
        self._living |= {t: Living() for t in (self._chunks, *self._joints.values())}
        self._status = Status("publishers", OK, "not looked yet")

    def heard(self, topic: str, names: Iterable[str]) -> None:
        """A joint state came with these joints."""
        sets, now = self._sets[topic], time.monotonic()
        sets[tuple(names)] = now
        if len(sets) > MOST_SETS:
            self._sets[topic] = {k: at for k, at in sets.items() if at >= now - RECENT}
            if len(self._sets[topic]) > MOST_SETS:
                self._sets[topic] = {tuple(names): now}

    def status(self) -> Status:
        """As of the newest ``look``."""
        return self._status

    def look(self, heard: Mapping[bytes, float]) -> None:
        """Count, now and then, for it asks the ROS graph; log what begins and ends. heard: steady
        seconds of each publisher's newest message, by gid."""
        self._status = status = self._count(heard)
        text = None if status.level == OK else status.message
        self._log.set("publishers", text, error=status.level == ERROR)

    def _count(self, heard: Mapping[bytes, float]) -> Status:
        now = time.monotonic()
        counts = {
            topic: living.count(self._found(topic), heard, now)
            for topic, living in self._living.items()
        }
        policies = counts[self._chunks]
        worst, notes = OK, []
        if master := self._masters():
            worst = ERROR
            notes.append(master)
        if policies > 1:
            worst = ERROR
            notes.append(
                f"{policies} publishers on {self._chunks}: more than one policy answers, and of "
                "two answers the later one is dropped as a duplicate"
            )
        for topic in self._commands:
            if counts[topic] > self._own[topic]:
                notes.append(_masters(topic, counts[topic], self._own[topic]))
        since = now - RECENT
        for topic, sets in self._sets.items():
            recent = [names for names, at in list(sets.items()) if at >= since]
            name = self._joints[topic]
            notes.append(joints_twice(name, counts[name], recent))
        said = "; ".join(note for note in notes if note)
        values = {**counts, HEARD: master or "none"}
        return Status("publishers", max(worst, WARN if said else OK), said or "ok", values)

    def _found(self, topic: str) -> list[Endpoint]:
        found = endpoints.publishers(self._node, topic)
        return [Endpoint(name, gid) for gid, name in found.items()]


def _masters(topic: str, count: int, own: int) -> str:
    if not own:
        return f"{count} publishers on {topic} while this node only logs: somebody moves the arm"
    expected = "this node alone" if own == 1 else f"{own} of this node"
    return f"{count} publishers on {topic}, expected {expected}: two masters make the arm jump"


def joints_twice(topic: str, count: int, sets: Sequence[Sequence[str]]) -> str:
    """What is wrong with ``count`` publishers that send joint states with these sets of joints, for
    people; empty where each joint comes from one of them, as of an arm and its gripper."""
    if count < 2 or not sets:
        return ""
    all_names = [name for names in sets for name in names]
    twice = sorted({name for name in all_names if all_names.count(name) > 1})
    if twice:
        return f"{count} publishers on {topic}, and several send {', '.join(twice)}"
    if len(sets) >= count:
        return ""
    return (
        f"{count} publishers on {topic}, but only {len(sets)} set(s) of joints: the same joints "
        "come from more than one, or one is silent"
    )
