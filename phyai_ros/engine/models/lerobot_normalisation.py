# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How LeRobot normalises a feature: a processor step's mode for its kind, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from phyai_ros.engine.models.lerobot_features import Feature
from phyai_ros.engine.models.lerobot_pipeline import Step
from phyai_ros.engine.types import PolicyError

STATISTICS_OF = MappingProxyType(
    {
        "IDENTITY": (),
        "MEAN_STD": ("mean", "std"),
        "MIN_MAX": ("min", "max"),
        "QUANTILES": ("q01", "q99"),
        "QUANTILE10": ("q10", "q90"),
    }
)
"""Normalisation mode -> the statistics it needs."""


@dataclass(frozen=True)
class Normalisation:
    """How one feature is normalised. statistics: float32, the feature's own shape; of ``file``."""

    mode: str
    eps: float
    statistics: Mapping[str, np.ndarray]
    file: str = ""


def read_normalisation(step: Step, feature: Feature, config: Mapping[str, Any]) -> Normalisation:
    """Of ``feature`` by ``step``; config: config.json's, for steps without modes of their own.
    Raises PolicyError where a mode is unknown or a statistic is absent, of another size or not
    finite."""
    mapping = step.config.get("norm_map") or config.get("normalization_mapping") or {}
    if not isinstance(mapping, Mapping):
        raise PolicyError(
            f"{step.described or step.file}: norm_map: expected an object, found {mapping!r}"
        )
    mode = str(mapping.get(feature.kind, "IDENTITY"))
    only = step.config.get("normalize_observation_keys")
    if only is not None and feature.kind != "ACTION" and feature.key not in only:
        mode = "IDENTITY"
    if mode not in STATISTICS_OF:
        raise PolicyError(
            f"{step.described or step.file}: norm_map[{feature.kind}] is {mode!r}; "
            f"known: {sorted(STATISTICS_OF)}"
        )
    found = step.statistics.get(feature.key, {})
    for name in STATISTICS_OF[mode]:
        _check_statistic(step, feature, mode, name, found)
    return Normalisation(mode, float(step.config.get("eps", 1e-8)), dict(found), step.file)


def _check_statistic(
    step: Step, feature: Feature, mode: str, name: str, found: Mapping[str, np.ndarray]
) -> None:
    key = f"{feature.key}.{name}"
    if name not in found:
        have: Sequence[str] = sorted(
            f"{f}.{s}" for f, stats in step.statistics.items() for s in stats
        )
        raise PolicyError(f"{step.file}: {key} is absent, which {mode} needs; it has {have}")
    channels = feature.shape[0]
    if found[name].size != channels:
        raise PolicyError(
            f"{step.file}: {key} has {found[name].size} values, the feature has {channels}"
        )
    if not np.all(np.isfinite(found[name])):
        raise PolicyError(f"{step.file}: {key} is not finite: {found[name].reshape(-1).tolist()}")
