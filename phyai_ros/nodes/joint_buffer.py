# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The newest measured position of every joint, from however many publishers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phyai_ros.nodes.convert import JointSample


class JointBuffer:
    """Positions by name. Written by one thread, read by another: both see whole arrays.

    names: the order of ``positions``. max_age: seconds since arrival, on the caller's clock.
    """

    def __init__(self, names: Sequence[str], max_age: float) -> None:
        self.names = tuple(names)
        self.max_age = max_age
        self._index = {name: i for i, name in enumerate(self.names)}
        self._newest: tuple[np.ndarray, np.ndarray]
        self.clear()

    def add(self, sample: JointSample, now: float) -> None:
        """Take in one message; joints that are not among ``names`` are ignored, and a position
        that is no number makes its joint unknown until a good one comes."""
        values, arrived = (array.copy() for array in self._newest)
        for name, position in sample.positions.items():
            if name in self._index:
                values[self._index[name]], arrived[self._index[name]] = position, now
        self._newest = values, arrived

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
            return f"no position yet of {', '.join(never)}"
        bad = [n for n, v in zip(self.names, values, strict=True) if not math.isfinite(v)]
        if bad:
            return f"position is not a number: {', '.join(bad)}"
        old = [n for n, at in zip(self.names, arrived, strict=True) if now - at > self.max_age]
        if old:
            return f"older than {self.max_age:g} s: {', '.join(old)}"
        return None

    def clear(self) -> None:
        # One attribute, so that no reader ever pairs old positions with a new time of arrival.
        self._newest = (
            np.full(len(self.names), math.nan),
            np.full(len(self.names), -math.inf),
        )
