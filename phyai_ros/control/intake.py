# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Chunks on their way in: which may move the arm, and where on the tick axis they belong."""

from __future__ import annotations

import math

import numpy as np

from phyai_ros.control.buffer import ChunkBuffer
from phyai_ros.control.chunk import BROKEN, Chunk, ChunkRefused, Drop, Plan, rows_of
from phyai_ros.control.clock import TickAxis
from phyai_ros.control.config import HandoffConfig
from phyai_ros.control.guard import Limits
from phyai_ros.control.progress import Progress
from phyai_ros.control.requests import Requests
from phyai_ros.control.states import Counters

IMPLAUSIBLE = 10.0
"""Times its velocity limit at which no policy meant a joint to move from one row to the next."""
LEAST_LEAP = 0.02
"""Share of its travel that a joint may move from row to row whatever its limit: one that is kept
slow for safety says nothing of what the policy was trained on."""


class Intake:
    """A chunk is checked when it comes (``accept``) and placed at the next tick (``adopt``).

    broken: unusable chunks in a row. refusal: of the newest dropped one, None before.
    measured_delay: ticks from observation to first use of the newest chunk. rows, stride: ticks
    that the newest usable chunk lasts, and ticks between two of its rows.
    """

    def __init__(
        self,
        limits: Limits,
        config: HandoffConfig,
        axis: TickAxis,
        buffer: ChunkBuffer,
        requests: Requests,
        progress: Progress,
        counters: Counters,
    ) -> None:
        self.broken = 0
        self.refusal: ChunkRefused | None = None
        self.measured_delay = 0
        self.rows, self.stride = 0, 1
        self._limits = limits
        self._config = config
        self._axis = axis
        self._buffer = buffer
        self._requests = requests
        self._progress = progress
        self._counters = counters
        self._incoming: tuple[Chunk, np.ndarray, int] | None = None

    @property
    def last_drop(self) -> str:
        """Why the newest dropped chunk was dropped, for people."""
        return "" if self.refusal is None else str(self.refusal)

    @property
    def waiting(self) -> bool:
        """A chunk has come and waits for the next tick."""
        return self._incoming is not None

    def clear(self, reason: Drop, why: str) -> None:
        """A chunk that waits never moves the arm."""
        if self._incoming is not None:
            self._drop(
                ChunkRefused(reason, f"{why}, before the tick that would have begun with it")
            )
        self._incoming = None

    def accept(self, chunk: Chunk, epoch: int, barred: tuple[Drop, str] | None) -> None:
        """barred: why no chunk may come in now. Raises ChunkRefused, counted."""
        limits = self._limits
        try:
            self._check_identity(chunk, epoch, barred)
            rows, stride = rows_of(
                chunk, limits.names, self._config.period, self._buffer.held, self._config.horizon
            )
            _check_range(rows, limits)
            _check_speed(rows, limits, self._config.period, self._buffer.held)
        except ChunkRefused as refusal:
            self._drop(refusal)
            raise
        self.clear(Drop.SUPERSEDED, "another chunk came")
        self.broken = 0
        self.rows, self.stride = len(rows), stride
        self._incoming = (chunk, rows, stride)

    def _check_identity(self, chunk: Chunk, epoch: int, barred: tuple[Drop, str] | None) -> None:
        if chunk.epoch != epoch:
            raise ChunkRefused(
                Drop.OLD_EPOCH, f"chunk of epoch {chunk.epoch}, now is epoch {epoch}"
            )
        self._requests.answered(chunk)
        if barred is not None:
            raise ChunkRefused(*barred)
        if not (math.isfinite(chunk.stamp) and chunk.stamp > 0):
            raise ChunkRefused(
                Drop.ZERO_STAMP, f"observation stamp: expected a time, found {chunk.stamp}"
            )
        newest = self._incoming[0] if self._incoming else None
        if newest is None and self._buffer.plan is not None:
            newest = self._buffer.plan.chunk
        if newest is not None and chunk.stamp <= newest.stamp:
            raise ChunkRefused(
                Drop.SUPERSEDED,
                f"observed at {chunk.stamp:.3f}, request {newest.request_id} answered with "
                f"{newest.stamp:.3f} already",
            )

    def _drop(self, refusal: ChunkRefused) -> None:
        self._counters.dropped[refusal.reason.value] += 1
        self.refusal = refusal
        if refusal.reason in BROKEN:
            self.broken += 1

    def adopt(self, tick: int, now: float, execution_ticks: int) -> bool:
        """Join the chunk that came since the last tick to the plan; True when this tick is the
        first to use one. execution_ticks: how long a method that does not overlap executes it."""
        if self._incoming is None:
            return False
        (chunk, rows, stride), self._incoming = self._incoming, None
        elapsed = tick - self._axis.at(chunk.stamp)
        # While the arm stood still nothing was consumed, and row 0 is still the next one.
        index = max(0, min(elapsed, self._progress.since(tick - elapsed)))
        try:
            # First of all: a stamp of another clock is no measure of a delay.
            self._check_age(elapsed, now - chunk.stamp)
            expected = self._requests.use(chunk, tick, elapsed).expected_delay
            self.measured_delay = max(elapsed, 0)
            self._check_index(index, len(rows), chunk.committed * stride)
        except ChunkRefused as refusal:
            self._drop(refusal)
            return False
        if expected and elapsed > expected:
            self._counters.late_chunks += 1
        self._counters.accepted_chunks += 1
        if not self._buffer.method.overlapped:
            rows = rows[: index + execution_ticks]
        self._buffer.splice(Plan(tick - index, rows, chunk, stride), tick)
        return True

    def _check_age(self, elapsed: int, age: float) -> None:
        if elapsed < -1:
            raise ChunkRefused(Drop.FUTURE_STAMP, f"observed {-age:.3f} s in the future")
        if age > self._config.max_chunk_age:
            raise ChunkRefused(
                Drop.TOO_OLD, f"observed {age:.2f} s ago, allowed {self._config.max_chunk_age:g} s"
            )

    def _check_index(self, index: int, rows: int, conditioned: int) -> None:
        if index >= rows:
            raise ChunkRefused(
                Drop.EXPIRED,
                f"{index} ticks were executed since its observation, it has {rows}: inference "
                f"takes longer than the chunk lasts",
            )
        if self._buffer.method.conditioned and 0 < conditioned < index:
            raise ChunkRefused(
                Drop.CONDITIONED_DELAY,
                f"made for a delay of {conditioned} ticks, came after {index}",
            )


def _check_range(rows: np.ndarray, limits: Limits) -> None:
    """Raise ChunkRefused(OUT_OF_RANGE) for a value that no clipping makes right."""
    wild = limits.wild(rows)
    if wild.any():
        row, column = np.argwhere(wild)[0]
        raise ChunkRefused(
            Drop.OUT_OF_RANGE,
            f"{limits.names[column]}: expected within [{limits.lower[column]:g}, "
            f"{limits.upper[column]:g}], found {rows[row, column]:g} at row {row}; are units and "
            f"normalisation statistics right?",
        )


def _check_speed(rows: np.ndarray, limits: Limits, period: float, held: np.ndarray) -> None:
    """Raise ChunkRefused(IMPLAUSIBLE) for rows that leap: the guard would follow them at full speed
    to wherever they lead. Grippers may snap."""
    if len(rows) < 2:
        return
    leap = np.where(held, 0.0, np.abs(np.diff(rows, axis=0)))
    travel = limits.upper - limits.lower
    wild = leap > np.maximum(IMPLAUSIBLE * limits.velocity * period, LEAST_LEAP * travel)
    if wild.any():
        row, column = np.argwhere(wild)[0]
        raise ChunkRefused(
            Drop.IMPLAUSIBLE,
            f"{limits.names[column]}: from {rows[row, column]:g} to {rows[row + 1, column]:g} in "
            f"{period:g} s at row {row}, where it moves at most {limits.velocity[column]:g} a "
            f"second; are the checkpoint's statistics and the order of its columns right?",
        )
