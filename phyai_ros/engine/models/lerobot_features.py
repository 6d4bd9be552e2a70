# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a LeRobot policy, as its config.json names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phyai_ros.engine.fields import whole
from phyai_ros.engine.types import PolicyError


@dataclass(frozen=True)
class Feature:
    """One entry of ``input_features``/``output_features``. kind: VISUAL, STATE, ENV or ACTION."""

    key: str
    kind: str
    shape: tuple[int, ...]


def read_features(config: Mapping[str, Any], key: str, file: Path) -> tuple[Feature, ...]:
    """Those of config's ``key``, in its order; ``file``, where it stands, is named in the
    PolicyError that is raised for what is no feature."""
    entries = config.get(key)
    if not isinstance(entries, Mapping) or not entries:
        raise PolicyError(f"{file}: {key} is absent or empty; the file has {sorted(config)}")
    features = []
    for name, entry in entries.items():
        try:
            where = f"{file}: {key}.{name}.shape"
            shape = tuple(whole(n, where) for n in entry["shape"])
            feature = Feature(str(name), str(entry["type"]), shape)
        except PolicyError:
            raise
        except (KeyError, TypeError) as error:
            raise PolicyError(
                f"{file}: {key}.{name} needs a type and a shape, found {entry!r}"
            ) from error
        axes = 3 if feature.kind == "VISUAL" else 1
        if len(feature.shape) != axes:
            raise PolicyError(
                f"{file}: {key}.{name}.shape needs {axes} positive numbers for type "
                f"{feature.kind}, found {list(feature.shape)}"
            )
        features.append(feature)
    return tuple(features)
