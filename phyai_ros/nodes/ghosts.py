# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Publishers that the ROS graph still lists although their process was killed. Pure.

The middleware forgets a participant only when its lease runs out, 20 s after its last sign of life
by Fast DDS's default. Meanwhile a node that was started again stands beside itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LEASE = 25.0
"""Seconds after which nobody killed is listed any more."""
RECENT = 5.0
"""Seconds for which a publisher that was heard counts as alive."""


@dataclass(frozen=True)
class Endpoint:
    """A publisher of the graph. node: full name. gid: what its messages carry."""

    node: str
    gid: bytes


class Living:
    """How many publishers of one topic are alive, as far as can be told.

    Of several with one node's name, a restarted node is one and its predecessor another. For LEASE
    seconds only those count that were heard lately, one at the least; after it, all. own: the node
    that asks, if it publishes there too, with so many ``publishers``; then those of its name that
    were there before it are its predecessors, and one that comes later is another master at once,
    for nobody hears commands.
    """

    def __init__(self, own: str = "", publishers: int = 1) -> None:
        self._own, self._publishers = own, publishers
        self._first: float | None = None
        self._seen: dict[bytes, float] = {}

    def count(self, found: Iterable[Endpoint], heard: Mapping[bytes, float], now: float) -> int:
        """found: what the graph lists. heard: seconds of the newest message by gid."""
        found = list(found)
        self._first = now if self._first is None else self._first
        self._seen = {e.gid: self._seen.get(e.gid, now) for e in found}
        names = Counter(e.node for e in found)
        return sum(self._alive(name, found, heard, now) for name in names)

    def _alive(
        self, name: str, found: list[Endpoint], heard: Mapping[bytes, float], now: float
    ) -> int:
        gids = [e.gid for e in found if e.node == name]
        if len(gids) == 1:
            return 1
        if name == self._own:
            before = [g for g in gids if self._seen[g] == self._first]
            if now - (self._first or now) < LEASE and before:
                # Some of those that were there are this node's.
                return len(gids) - len(before) + min(len(before), self._publishers)
            return len(gids)
        pair_since = sorted(self._seen[g] for g in gids)[1]
        if now - pair_since >= LEASE:
            return len(gids)
        return max(1, sum(g in heard and now - heard[g] <= RECENT for g in gids))
