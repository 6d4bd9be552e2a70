# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint's training data was, which tells another unit from a posture it never saw."""

from __future__ import annotations

import numpy as np

from phyai_ros.engine.types import FeatureSpec, PolicySpec

FAR = 10.0
"""Times the range of the training data by which a value lies outside it when its unit is wrong."""
LEAST = 0.1
"""Of the checkpoint's unit: a joint that hardly moved in training has at least this range."""


def bounds(spec: PolicySpec) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper [state_dim], in the checkpoint's unit, far outside of everything it was
    trained on; infinite where its statistics do not tell. A value beyond was 180 / pi times too
    large, or is of another joint: the network would be asked about something it cannot know."""
    lower, upper = [], []
    for feature in spec.state:
        low, high = _trained(feature)
        margin = FAR * np.maximum(high - low, LEAST)
        lower.append(low - margin)
        upper.append(high + margin)
    if not lower:
        return np.full(spec.state_dim, -np.inf), np.full(spec.state_dim, np.inf)
    return np.concatenate(lower), np.concatenate(upper)


def _trained(feature: FeatureSpec) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest [size] that training saw, as far as the statistics tell."""
    known = {
        name: np.asarray(value, np.float64).reshape(-1)
        for name, value in feature.statistics.items()
        if np.size(value) == feature.size
    }
    for low, high in (("min", "max"), ("q01", "q99"), ("q10", "q90")):
        if low in known and high in known:
            return known[low], known[high]
    if "mean" in known and "std" in known:
        spread = 3.0 * known["std"]
        return known["mean"] - spread, known["mean"] + spread
    return np.full(feature.size, -np.inf), np.full(feature.size, np.inf)
