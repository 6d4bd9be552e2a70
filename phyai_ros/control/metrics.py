# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Numbers about an executed command stream. Pure functions of arrays.

Definitions follow SEAM (arXiv 2607.04609) where it defines them: its "jerk" is a second difference,
so that is what ``boundary_jerk`` and ``interior_jerk`` are; ``true_jerk`` is the third derivative.
A smooth stream may come from an arm that stopped: show these beside success.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def _stream(commands: np.ndarray) -> np.ndarray:
    array = np.asarray(commands, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"commands: expected [ticks, joints], found shape {list(array.shape)}")
    return array


def _boundaries(boundaries: Sequence[int], ticks: int) -> np.ndarray:
    index = np.unique(np.asarray(boundaries, dtype=np.int64))
    if index.size and not (index[0] >= 0 and index[-1] < ticks):
        raise ValueError(f"boundaries: expected 0 <= b < {ticks}, found {index.tolist()}")
    return index


def chunk_discontinuity(commands: np.ndarray, boundaries: Sequence[int]) -> float:
    """Mean over boundaries b of ||a_b - a_(b-1)||, in the units of commands [ticks, joints]; b:
    first row of each new chunk. NaN if none."""
    a = _stream(commands)
    b = _boundaries(boundaries, len(a))
    b = b[b >= 1]
    return float(np.linalg.norm(a[b] - a[b - 1], axis=1).mean()) if b.size else math.nan


@dataclass(frozen=True)
class Jerk:
    """boundary, interior: mean ||a_(t+1) - 2 a_t + a_(t-1)|| over chunk boundaries and over the
    rest; ratio: their quotient; boundary_variance: over boundaries. NaN where there is none."""

    boundary: float
    interior: float
    ratio: float
    boundary_variance: float


def jerk(commands: np.ndarray, boundaries: Sequence[int]) -> Jerk:
    """Second differences, joint units a tick squared. commands [ticks, joints]."""
    a = _stream(commands)
    b = _boundaries(boundaries, len(a))
    if len(a) < 3:
        return Jerk(math.nan, math.nan, math.nan, math.nan)
    norms = np.linalg.norm(a[2:] - 2.0 * a[1:-1] + a[:-2], axis=1)
    at_boundary = np.zeros(len(norms), dtype=bool)
    at_boundary[b[(b >= 1) & (b <= len(a) - 2)] - 1] = True
    inside, outside = norms[at_boundary], norms[~at_boundary]
    boundary = float(inside.mean()) if inside.size else math.nan
    interior = float(outside.mean()) if outside.size else math.nan
    ratio = boundary / interior if interior > 0 else math.nan
    variance = float(inside.var()) if inside.size else math.nan
    return Jerk(boundary, interior, ratio, variance)


def true_jerk(commands: np.ndarray, period: float) -> np.ndarray:
    """||third difference|| / period^3, one a tick from the fourth on: [ticks - 3], units/s^3."""
    return np.linalg.norm(np.diff(_stream(commands), n=3, axis=0), axis=1) / period**3


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson score interval of a proportion, 95 %. (0, 1) without trials."""
    if not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials, found {successes} of {trials}")
    if trials == 0:
        return 0.0, 1.0
    z = 1.959963984540054  # of the normal distribution, 97.5 %
    p, zz = successes / trials, z * z / trials
    centre = (p + zz / 2.0) / (1.0 + zz)
    half = z / (1.0 + zz) * math.sqrt(p * (1.0 - p) / trials + zz / (4.0 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Percentiles:
    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


def percentiles(values: Sequence[float] | np.ndarray) -> Percentiles:
    """Linear interpolation between ranks; NaN values are left out."""
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[~np.isnan(array)]
    if not array.size:
        return Percentiles(0, *([math.nan] * 5))
    p50, p95, p99 = np.percentile(array, [50, 95, 99])
    return Percentiles(
        array.size, float(array.mean()), float(p50), float(p95), float(p99), float(array.max())
    )


@dataclass(frozen=True)
class ActionAge:
    """Seconds from observation to execution: of the first and of the last row used of a chunk
    (means over chunks), and over every tick."""

    first: float
    last: float
    all: Percentiles


def action_age(ages: Sequence[float], request_ids: Sequence[int]) -> ActionAge:
    """ages: of every executed tick, seconds. request_ids: the chunk behind each, same length."""
    age, chunk = np.asarray(ages, dtype=np.float64), np.asarray(request_ids)
    if age.shape != chunk.shape:
        raise ValueError(f"expected one chunk an age, found {chunk.shape} for {age.shape}")
    if not age.size:
        return ActionAge(math.nan, math.nan, percentiles([]))
    change = np.flatnonzero(chunk[1:] != chunk[:-1])
    first = np.concatenate([[0], change + 1])
    last = np.concatenate([change, [age.size - 1]])
    return ActionAge(float(age[first].mean()), float(age[last].mean()), percentiles(age))
