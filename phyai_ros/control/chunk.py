# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A chunk as the handoff receives it, its checks, and its place on the tick axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from phyai_ros.control.frame import Frame
from phyai_ros.control.words import shortened


class Drop(str, Enum):
    """Why a chunk never moves the arm. The value is the name shown in diagnostics."""

    NON_FINITE = "non_finite"
    OUT_OF_RANGE = "out_of_range"
    IMPLAUSIBLE = "implausible_speed"
    JOINT_NAMES = "joint_names"
    SHAPE = "shape"
    HORIZON = "horizon"
    STEP = "step"
    ZERO_STAMP = "zero_stamp"
    FUTURE_STAMP = "future_stamp"
    OLD_EPOCH = "old_epoch"
    UNKNOWN_REQUEST = "unknown_request"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    TOO_OLD = "too_old"
    CONDITIONED_DELAY = "conditioned_delay"
    HELD = "held"
    FAULT = "fault"


BROKEN = frozenset(
    {
        Drop.NON_FINITE,
        Drop.OUT_OF_RANGE,
        Drop.IMPLAUSIBLE,
        Drop.JOINT_NAMES,
        Drop.SHAPE,
        Drop.HORIZON,
        Drop.STEP,
    }
)
"""Drops that say the policy is wrong, not late."""


USUAL = frozenset({Drop.OLD_EPOCH, Drop.SUPERSEDED, Drop.HELD, Drop.FAULT})
"""Drops for which nobody is to blame: something newer came, or nothing shall move."""


class ChunkRefused(ValueError):  # noqa: N818
    """A chunk that cannot be played; ``reason`` is the kind, the text names expected and found."""

    def __init__(self, reason: Drop, detail: str) -> None:
        self.reason = reason
        self.detail = shortened(detail)
        super().__init__(f"{reason.value}: {self.detail}")


LONGEST = 10_000
"""Ticks that a chunk may last. One that lasts longer has a wrong step or was never one, and placing
it would take the control thread longer than a tick."""


@dataclass(frozen=True)
class Chunk:
    """Future actions of one observation.

    stamp: seconds, time of the observation; row 0 belongs to it. step: seconds between rows.
    positions: float64 [horizon, joints], robot units, columns in the order of joint_names.
    committed: leading rows equal to actions that were already committed. sources: what the
    observation was made of: camera role or joint -> seconds, stamp of the newest sample there was.
    """

    request_id: int
    epoch: int
    stamp: float
    joint_names: tuple[str, ...]
    step: float
    positions: np.ndarray
    committed: int = 0
    policy: str = ""
    instruction: str = ""
    sources: Mapping[str, float] = field(default_factory=dict)


def sources(frame: Frame) -> dict[str, float]:
    """Camera role or joint -> stamp (seconds) of the newest sample that was there when the frame
    was made. Two doubles within a factor of two subtract exactly, so this undoes ``ages``."""
    now = frame.oldest + frame.wait
    return {name: now - age for name, age in frame.ages.items()}


@dataclass(frozen=True)
class Plan:
    """Rows on the tick axis: row i belongs to tick ``first + i``; columns in the handoff's order.

    stride: ticks between two rows of the chunk it came from.
    """

    first: int
    rows: np.ndarray
    chunk: Chunk
    stride: int = 1

    @property
    def end(self) -> int:
        """First tick after the last row."""
        return self.first + len(self.rows)

    def row(self, tick: int) -> np.ndarray | None:
        index = tick - self.first
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def between(self, start: int, stop: int) -> np.ndarray:
        """Rows of ticks start <= t < stop that the plan has: [n, joints], possibly none."""
        return self.rows[max(start - self.first, 0) : max(stop - self.first, 0)]


def stride(step: float, period: float) -> int:
    """Ticks between two rows. Raises ChunkRefused(STEP) unless it is a whole number >= 1."""
    ratio = step / period if math.isfinite(step) else math.nan
    whole = round(ratio) if math.isfinite(ratio) else 0
    if whole < 1 or abs(ratio - whole) > 1e-3 * whole:
        raise ChunkRefused(
            Drop.STEP,
            f"chunk step {step:g} s must be a whole multiple of the control period {period:g} s "
            f"(found {ratio:.4g}); set the robot's control_rate to a multiple of {1 / step:.4g} Hz"
            if step and math.isfinite(step)
            else f"chunk step: expected seconds > 0, found {step!r}",
        )
    return whole


def upsample(positions: np.ndarray, times: int, held: np.ndarray) -> np.ndarray:
    """[n, J] rows -> [(n - 1) * times + 1, J], linear between rows.

    held: bool [J]; those columns (grippers, discrete) keep their row until the next one.
    """
    if times == 1:
        return positions
    n = len(positions)
    at = np.arange((n - 1) * times + 1)
    row = at // times
    after = np.minimum(row + 1, n - 1)
    share = ((at % times) / times)[:, None]
    out = positions[row] * (1.0 - share) + positions[after] * share
    out[:, held] = positions[row][:, held]
    return out


def rows_of(
    chunk: Chunk,
    names: Sequence[str],
    period: float,
    held: np.ndarray,
    horizon: int | None = None,
) -> tuple[np.ndarray, int]:
    """Check a chunk whole; its rows, one a tick: ([n, joints] ordered as ``names``, stride).

    Columns are found by name, so their order does not matter. horizon: rows a chunk must have,
    None for any. Raises ChunkRefused; nothing is clipped or repaired, and a single value that is
    not finite refuses the whole chunk.
    """
    given = tuple(chunk.joint_names)
    if len(given) != len(names) or set(given) != set(names):
        missing = [n for n in names if n not in given]
        extra = [n for n in given if n not in names]
        raise ChunkRefused(
            Drop.JOINT_NAMES,
            f"expected {list(names)}, found {list(given)} (missing {missing}, unknown {extra})",
        )
    positions = np.asarray(chunk.positions, dtype=np.float64)
    if positions.ndim != 2 or positions.shape[1] != len(names) or len(positions) < 1:
        raise ChunkRefused(
            Drop.SHAPE,
            f"expected [rows, {len(names)}] positions, found shape {list(positions.shape)}",
        )
    if horizon is not None and len(positions) != horizon:
        raise ChunkRefused(
            Drop.HORIZON, f"expected {horizon} rows as configured, found {len(positions)}"
        )
    times = stride(chunk.step, period)
    if len(positions) * times > LONGEST:
        raise ChunkRefused(
            Drop.STEP if len(positions) <= LONGEST else Drop.HORIZON,
            f"expected at most {LONGEST} ticks, found {len(positions)} rows of {chunk.step:g} s, "
            f"{len(positions) * times} ticks",
        )
    finite = np.isfinite(positions)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ChunkRefused(
            Drop.NON_FINITE,
            f"{positions[row, column]} at row {row}, joint {given[column]} "
            f"({int((~finite).sum())} values in all); is the checkpoint's download complete?",
        )
    if given != tuple(names):
        positions = positions[:, [given.index(n) for n in names]]
    return upsample(positions, times, held), times
