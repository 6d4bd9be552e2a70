# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What was planned when a picture was taken: the newest chunks, ticks and joint positions. No ROS
here."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import State

_CHUNKS = 8
_PAST = 2.0
"""Seconds of ticks and joint positions that are kept: longer than any picture is under way."""


@dataclass(frozen=True)
class Tick:
    """A tick of the handoff: what it plays, and which row of it."""

    state: State
    request_id: int
    index: int
    remaining: int


@dataclass(frozen=True)
class Plan:
    """rows: float64 [n, joints] in the robot's order, robot units. measured: [joints], likewise.
    current: the row that is played; rows before it are past. tick: None before the first."""

    rows: np.ndarray
    measured: np.ndarray
    current: int
    tick: Tick | None
    instruction: str


class _Timeline:
    """Values by rising stamp, the newest ``_PAST`` seconds."""

    def __init__(self) -> None:
        self._stamps: list[float] = []
        self._values: list = []

    def add(self, stamp: float, value: object) -> None:
        if self._stamps and stamp < self._stamps[-1]:  # the clock went back: the past is another's
            self._stamps.clear()
            self._values.clear()
        self._stamps.append(stamp)
        self._values.append(value)
        old = bisect.bisect_left(self._stamps, stamp - _PAST)
        del self._stamps[:old], self._values[:old]

    def at(self, stamp: float) -> object | None:
        """The newest value not after a time; the oldest where all are later."""
        if not self._values:
            return None
        return self._values[max(0, bisect.bisect_right(self._stamps, stamp) - 1)]


class Recent:
    """joints: the robot's, in its order. Times are seconds of one clock."""

    def __init__(self, joints: Sequence[str]) -> None:
        self._column = {name: i for i, name in enumerate(joints)}
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()
        self._ticks = _Timeline()
        self._positions = _Timeline()

    def add_chunk(self, chunk: Chunk) -> None:
        self._chunks[chunk.request_id] = chunk
        while len(self._chunks) > _CHUNKS:
            self._chunks.popitem(last=False)

    def add_tick(self, stamp: float, tick: Tick) -> None:
        self._ticks.add(stamp, tick)

    def add_positions(self, stamp: float, positions: np.ndarray) -> None:
        """positions: [joints]; a copy is the caller's to make."""
        self._positions.add(stamp, positions)

    def at(self, stamp: float) -> Plan | None:
        """The plan at a time; None before any joint position has come. Joints that a chunk does
        not name stay where they were measured."""
        measured = self._positions.at(stamp)
        if measured is None:
            return None
        assert isinstance(measured, np.ndarray)
        tick = self._ticks.at(stamp)
        assert tick is None or isinstance(tick, Tick)
        chunk = self._chunks.get(tick.request_id) if tick is not None else None
        if chunk is None or tick is None:
            empty = np.empty((0, len(measured)))
            return Plan(empty, measured, 0, tick, "")
        rows = np.tile(measured, (len(chunk.positions), 1))
        for column, name in enumerate(chunk.joint_names):
            if name in self._column:
                rows[:, self._column[name]] = chunk.positions[:, column]
        current = min(tick.index, len(rows))
        return Plan(rows, measured, current, tick, chunk.instruction)
