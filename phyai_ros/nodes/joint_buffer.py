# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The newest measured position of every joint, from however many publishers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phyai_ros.nodes.convert import JointSample

APART = 0.05
"""rad or m by which two publishers may differ about a joint that both bring."""

REMEMBERED = 60.0
"""Seconds after which a publisher that says nothing more is forgotten."""

MOST_NAMES = 8
"""Names of others' joints that are told; the rest is counted."""
MOST_OTHERS = 256
"""Names of others' joints that are remembered; a publisher may send ever new ones."""

_Said = tuple[np.ndarray, np.ndarray]
"""Positions and when they came, of all joints."""


class JointBuffer:
    """Positions by name. Written by one thread, read by another: both see whole arrays.

    A joint of which two publishers say different things is unknown while both speak: no motion
    starts from a place where the arm may not be.
    names: the order of ``positions``. max_age: seconds since arrival, on the caller's clock.
    """

    def __init__(self, names: Sequence[str], max_age: float) -> None:
        self.names = tuple(names)
        self.max_age = max_age
        self._index = {name: i for i, name in enumerate(self.names)}
        self._newest: _Said
        self._said: dict[tuple[str, bytes], _Said] = {}
        self._others: dict[str, float] = {}
        self.clear()

    def add(self, sample: JointSample, now: float, topic: str = "", sender: bytes = b"") -> None:
        """Take in one message; joints that are not among ``names`` are ignored, and a position
        that is no number makes its joint unknown until a good one comes. sender: its publisher's
        gid, where that is told."""
        source = topic, sender
        if source not in self._said:
            self._said = {
                s: (values, arrived)
                for s, (values, arrived) in self._said.items()
                if now - arrived.max() < REMEMBERED
            }
        values, arrived = (array.copy() for array in self._said.get(source, self._nothing()))
        for name, position in sample.positions.items():
            if name in self._index:
                values[self._index[name]], arrived[self._index[name]] = position, now
        others = {name: now for name in sample.positions if name not in self._index}
        if others:
            self._others = dict([*(self._others | others).items()][-MOST_OTHERS:])
        self._said[source] = values, arrived
        self._newest = self._together(now) if len(self._said) > 1 else (values, arrived)

    def _together(self, now: float) -> _Said:
        """What all publishers say: of each joint the newest, no number where they differ."""
        values = np.stack([values for values, _ in self._said.values()])
        arrived = np.stack([arrived for _, arrived in self._said.values()])
        newest = arrived.argmax(axis=0)
        joints = np.arange(len(self.names))
        merged, at = values[newest, joints], arrived[newest, joints]
        apart = np.abs(values - merged)
        differ = (now - arrived <= self.max_age) & ~(apart <= APART)
        return np.where(differ.any(axis=0), math.nan, merged), at

    def positions(self, now: float) -> np.ndarray | None:
        """float64 [joints] in the order of ``names``; None while any is unknown or too old."""
        values, arrived = self._newest
        if np.isfinite(values).all() and now - arrived.min(initial=now) <= self.max_age:
            return values
        return None

    def trouble(self, now: float) -> str | None:
        """Which joints are unknown or too old, for people; None when all are fine."""
        values, arrived = self._newest
        never = [n for n, at in zip(self.names, arrived, strict=True) if at == -math.inf]
        if never:
            return f"no position yet of {', '.join(never)}{self._instead(now)}"
        bad = [n for n, v in zip(self.names, values, strict=True) if not math.isfinite(v)]
        if bad:
            return self._contradiction(bad[0], now) or f"position is not a number: {', '.join(bad)}"
        old = [n for n, at in zip(self.names, arrived, strict=True) if now - at > self.max_age]
        if old:
            return f"older than {self.max_age:g} s: {', '.join(old)}{self._instead(now)}"
        return None

    def _instead(self, now: float) -> str:
        """Which joints come that are none of these, for people: a prefix is missing, perhaps."""
        names = sorted(n for n, at in self._others.items() if now - at <= self.max_age)
        if not names:
            return ""
        more = len(names) - MOST_NAMES
        rest = f" and {more} more" if more > 0 else ""
        return f"; others come: {', '.join(names[:MOST_NAMES])}{rest}"

    def _contradiction(self, name: str, now: float) -> str:
        """What publishers say of a joint, for people; empty unless two of them say a number."""
        i = self._index[name]
        said = [
            f"{values[i]:.3f} on {topic}"
            for (topic, _), (values, arrived) in list(self._said.items())
            if now - arrived[i] <= self.max_age and math.isfinite(values[i])
        ]
        if len(said) < 2:
            return ""
        words = " and ".join(said)
        return f"{name} is {words}: which of them is it?"

    def clear(self) -> None:
        # One attribute, so that no reader ever pairs old positions with a new time of arrival.
        self._said = {}
        self._newest = self._nothing()

    def _nothing(self) -> _Said:
        return np.full(len(self.names), math.nan), np.full(len(self.names), -math.inf)
