# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint's training data was, which tells another unit from a posture it never saw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phyai_ros.engine.types import FeatureSpec, PolicySpec

FAR = 10.0
"""Times the range of the training data by which a value lies outside it when its unit is wrong."""
LEAST = 0.1
"""rad or m: a joint that hardly moved in training counts as one that moved through so much."""
RANGES = (("min", "max"), ("q01", "q99"), ("q10", "q90"))
"""Statistics that tell between what values the training data lie, the widest first."""
_USUAL = ("q01", "q10", "mean")
_Range = tuple[np.ndarray, np.ndarray]


class Trained:
    """low, high: [state_dim], what training saw, in the checkpoint's unit; infinite where its
    statistics do not tell. A state outside ``lower`` or ``upper`` is so far away that the network
    would be asked about something it cannot know.

    scale: [state_dim], the checkpoint's units in one of the robot's.
    """

    def __init__(self, spec: PolicySpec, scale: np.ndarray) -> None:
        self.low, self.high = ranges(spec.state)
        margin = FAR * np.maximum(self.high - self.low, LEAST * np.abs(scale))
        self.lower, self.upper = self.low - margin, self.high + margin

    def ignore(self, columns: np.ndarray) -> None:
        """columns: bool [state_dim], of which any value will do."""
        self.lower[columns], self.upper[columns] = -np.inf, np.inf

    def outside(self, state: np.ndarray) -> np.ndarray:
        """Columns of a state [state_dim] that are too far away."""
        return np.flatnonzero((state < self.lower) | (state > self.upper))

    def why(self, column: int, value: float) -> str:
        """What is known of a column's value that is too far away, and what it can come of."""
        low, high = float(self.low[column]), float(self.high[column])
        others = (
            ("degrees taken for radians", np.deg2rad(value)),
            ("radians taken for degrees", np.rad2deg(value)),
            ("the sign", -value),
        )
        near = 0.1 * (high - low)
        unit = [name for name, other in others if low - near <= other <= high + near]
        hint = f" ({' or '.join(unit)} would explain it)" if unit else ""
        return (
            f"{value:g}, where training saw {low:g} to {high:g}; beyond {self.lower[column]:g} to "
            f"{self.upper[column]:g} no answer means anything. Either the joint stands where it "
            "never was in training: move it there; or the number is not the one that the "
            f"checkpoint means: unit, sign or column{hint}"
        )


def ranges(features: Sequence[FeatureSpec]) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest [columns] that training saw; infinite where the statistics do not tell."""
    return _joined([_first(_ends(feature), ("min", *_USUAL)) for feature in features])


def usual(features: Sequence[FeatureSpec]) -> tuple[np.ndarray, np.ndarray]:
    """As ``ranges``, without the few frames in which an encoder wrapped or fell out, as far as the
    statistics tell."""
    seen = []
    for ends in map(_ends, features):
        low, high = _first(ends, _USUAL)
        least, most = _first(ends, ("min",))
        # The spread may reach farther than training did. What nothing tells of is infinite.
        seen.append((np.maximum(low, least), np.minimum(high, most)))
    return _joined(seen)


def _ends(feature: FeatureSpec) -> dict[str, _Range]:
    """What the statistics tell of the lowest and highest [size], by the first that tells it."""
    known = {
        name: np.asarray(value, np.float64).reshape(-1)
        for name, value in feature.statistics.items()
        if np.size(value) == feature.size
    }
    ends = {
        low: (known[low], known[high]) for low, high in RANGES if low in known and high in known
    }
    if "mean" in known and "std" in known:
        spread = 3.0 * known["std"]
        ends["mean"] = (known["mean"] - spread, known["mean"] + spread)
    return ends | {"": (np.full(feature.size, -np.inf), np.full(feature.size, np.inf))}


def _first(ends: dict[str, _Range], order: Sequence[str]) -> _Range:
    return next(ends[name] for name in (*order, "") if name in ends)


def _joined(seen: Sequence[_Range]) -> _Range:
    none = [np.zeros(0)]
    return (
        np.concatenate([low for low, _ in seen] or none),
        np.concatenate([high for _, high in seen] or none),
    )
