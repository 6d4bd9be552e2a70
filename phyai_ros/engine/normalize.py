# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Normalisation of states and actions, with each ecosystem's own formula and epsilon.

All in numpy on the host: the vectors are tiny, and float32 elementwise arithmetic is the same
there as in the references, so results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from phyai_ros.engine.types import PolicyError

_STATISTICS = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
}
MODES = ("identity", *_STATISTICS)
STILL = 1e-4
"""In robot units: a column that varied by less in training was one that never moved."""


class Normaliser(Protocol):
    """x [..., dim], raw or normalised. Results have numpy's promoted dtype."""

    def normalise(self, x: np.ndarray) -> np.ndarray: ...

    def unnormalise(self, x: np.ndarray) -> np.ndarray: ...

    def as_trained(self, x: np.ndarray) -> np.ndarray:
        """``normalise`` of commands that a model shall agree with: a column that never moved in
        training is where it was there. A command a hair's breadth beside it (a ramp's, a limit's,
        rounding's) would be tens of thousands to the model."""
        ...


class _Seen:
    """centre, spread: of what training saw of each column, in robot units, [dim] or more."""

    def __init__(self, centre: np.ndarray, spread: np.ndarray):
        self._centre, self._still = centre, spread < STILL

    def normalise(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def as_trained(self, x: np.ndarray) -> np.ndarray:
        width = x.shape[-1]
        centre = self._centre[..., :width].astype(x.dtype)
        return self.normalise(np.where(self._still[..., :width], centre, x))


class Identity:
    """LeRobot's IDENTITY: numbers pass as they are."""

    def normalise(self, x: np.ndarray) -> np.ndarray:
        return x

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        return x

    def as_trained(self, x: np.ndarray) -> np.ndarray:
        return x


def statistics(
    stats: Mapping[str, object], mode: str, where: str, dim: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The two statistics that ``mode`` needs, dtype kept where they are arrays and float32 where
    they are lists. ``where`` (file and key) names them in a PolicyError; ``dim`` is the width
    they must have."""
    if mode not in _STATISTICS:
        raise PolicyError(f"{where}: unknown normalisation {mode!r}; known: {', '.join(MODES)}")
    found = []
    for name in _STATISTICS[mode]:
        if stats.get(name) is None:
            raise PolicyError(
                f"{where}: statistic {name!r} missing, needed for {mode}; "
                f"there are: {', '.join(sorted(stats)) or 'none'}"
            )
        array = np.atleast_1d(numbers(stats[name], f"{where}: statistic {name!r}"))
        if dim is not None and array.shape[-1] != dim:
            raise PolicyError(
                f"{where}: statistic {name!r}: expected {dim} values, found {array.shape[-1]}"
            )
        if not np.isfinite(array).all():
            raise PolicyError(f"{where}: statistic {name!r} is not finite")
        found.append(array)
    _check_pair(_STATISTICS[mode], found[0], found[1], where)
    return found[0], found[1]


def numbers(value: object, where: str) -> np.ndarray:
    """An array as it is, a list as float32. Raises PolicyError naming ``where``."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError):
        found = str(value)
        raise PolicyError(f"{where}: expected numbers, found {found[:80]}") from None


def _check_pair(names: tuple[str, str], first: np.ndarray, second: np.ndarray, where: str) -> None:
    """A range that ends before it begins, or a negative deviation, would mirror the column."""
    if first.shape != second.shape:
        raise PolicyError(
            f"{where}: expected as many values in {names[0]!r} as in {names[1]!r}, "
            f"found shapes {list(first.shape)} and {list(second.shape)}"
        )
    deviation = names[1] == "std"
    wrong = np.argwhere(second < 0 if deviation else first > second)
    if not len(wrong):
        return
    place = tuple(wrong[0])
    column = f"column {place[-1]}" + (f", row {place[0]}" if len(place) > 1 else "")
    low, high = (f"{float(array[place]):g}" for array in (first, second))
    if deviation:
        raise PolicyError(f"{where}: statistic 'std', {column}: expected 0 or more, found {high}")
    raise PolicyError(
        f"{where}: statistics, {column}: expected {names[0]!r} <= {names[1]!r}, "
        f"found {low} and {high}"
    )


class LeRobotMeanStd(_Seen):
    """lerobot MEAN_STD: (x - mean) / (std + eps); inverse x std + mean, without the epsilon."""

    def __init__(self, mean: np.ndarray, std: np.ndarray, eps: float = 1e-8):
        super().__init__(mean, std)
        self.mean, self.std, self.denominator = mean, std, std + mean.dtype.type(eps)

    def normalise(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) / self.denominator

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        return x * self.std + self.mean


class LeRobotRange(_Seen):
    """lerobot MIN_MAX, QUANTILES and QUANTILE10: 2 (x - low) / (high - low) - 1, a zero range
    becoming eps. min_max halves before multiplying in its inverse, the quantiles after."""

    def __init__(self, low: np.ndarray, high: np.ndarray, *, halve_first: bool, eps: float = 1e-8):
        span = high - low
        super().__init__(low + span / 2, span)
        self.low, self.halve_first = low, halve_first
        self.span = np.where(span == 0, span.dtype.type(eps), span)

    def normalise(self, x: np.ndarray) -> np.ndarray:
        return 2 * (x - self.low) / self.span - 1

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        if self.halve_first:
            return (x + 1) / 2 * self.span + self.low
        return (x + 1) * self.span / 2 + self.low


class OpenPiMeanStd(_Seen):
    """openpi: (x - mean) / (std + 1e-6), inverse x (std + 1e-6) + mean. The inverse pads its
    statistics with mean 0 and std 1 to x's width; the forward one cuts them."""

    def __init__(self, mean: np.ndarray, std: np.ndarray):
        super().__init__(mean, std)
        self.mean, self.std = mean, std

    def normalise(self, x: np.ndarray) -> np.ndarray:
        width = x.shape[-1]
        return (x - self.mean[..., :width]) / (self.std[..., :width] + 1e-6)

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        extra = max(0, x.shape[-1] - self.mean.shape[-1])
        mean = np.pad(self.mean, (0, extra))
        std = np.pad(self.std, (0, extra), constant_values=1.0)
        return x * (std + 1e-6) + mean


class OpenPiQuantile(_Seen):
    """openpi: (x - q01) / (q99 - q01 + 1e-6) 2 - 1; columns beyond the statistics pass through
    the inverse unchanged."""

    def __init__(self, low: np.ndarray, high: np.ndarray):
        super().__init__(low + (high - low) / 2, high - low)
        self.low, self.high = low, high

    def normalise(self, x: np.ndarray) -> np.ndarray:
        low, high = self.low[..., : x.shape[-1]], self.high[..., : x.shape[-1]]
        return (x - low) / (high - low + 1e-6) * 2.0 - 1.0

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        dim = self.low.shape[-1]
        known = (x[..., :dim] + 1.0) / 2.0 * (self.high - self.low + 1e-6) + self.low
        return known if dim >= x.shape[-1] else np.concatenate([known, x[..., dim:]], axis=-1)


class GrootRange:
    """GR00T N1.7: 2 (x - low) / (high - low) - 1, 0 where the range is 0, clipped to [-1, 1] if
    ``clip``; inverse (clip(a) + 1) / 2 (high - low) + low. Statistics may be [dim] or, for
    relative actions, one row a time step [steps, dim] (cut to the chunk's length)."""

    def __init__(self, low: np.ndarray, high: np.ndarray, *, clip: bool = True):
        self.low, self.high, self.clip = low, high, clip

    def _rows(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.low.ndim == 2 and x.shape[-2] <= self.low.shape[0]:
            return self.low[: x.shape[-2]], self.high[: x.shape[-2]]
        return self.low, self.high

    def normalise(self, x: np.ndarray) -> np.ndarray:
        low, high = self._rows(x)
        span = high - low
        flat = span == 0
        mapped = 2 * (x - low) / np.where(flat, span.dtype.type(1), span) - 1
        mapped = np.where(flat, mapped.dtype.type(0), mapped)
        return np.clip(mapped, -1, 1) if self.clip else mapped

    def as_trained(self, x: np.ndarray) -> np.ndarray:
        low, high = self._rows(x)
        span = high - low
        return self.normalise(np.where(span < STILL, low + span / 2, x).astype(x.dtype))

    def unnormalise(self, x: np.ndarray) -> np.ndarray:
        low, high = self._rows(x)
        half = x.dtype.type(0.5)
        return (np.clip(x, -1, 1) + 1) * half * (high - low) + low


def lerobot(
    mode: str,
    stats: Mapping[str, object],
    where: str,
    *,
    dim: int | None = None,
    eps: float = 1e-8,
) -> Normaliser:
    """lerobot's normaliser of a mode as its config spells it (MEAN_STD, ...), either case."""
    mode = mode.lower()
    if mode == "identity":
        return Identity()
    first, second = statistics(stats, mode, where, dim)
    if mode == "mean_std":
        return LeRobotMeanStd(first, second, eps)
    return LeRobotRange(first, second, halve_first=mode == "min_max", eps=eps)


def openpi(stats: Mapping[str, object], where: str, *, quantiles: bool) -> Normaliser:
    """openpi's normaliser; its norm_stats.json holds float64."""
    mode = "quantiles" if quantiles else "mean_std"
    wide = {k: np.asarray(v) for k, v in stats.items() if v is not None}
    first, second = statistics(wide, mode, where)
    return OpenPiQuantile(first, second) if quantiles else OpenPiMeanStd(first, second)
