# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's processors: the steps in front of a model and behind it, with their statistics.

policy_preprocessor.json and policy_postprocessor.json name the steps and the safetensors files that
hold statistics; in older checkpoints these are among the weights (``lerobot_legacy``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from phyai_ros.engine.files import (
    check_inside,
    is_own_file,
    is_there,
    read_json,
    unreadable,
)
from phyai_ros.engine.models import lerobot_legacy
from phyai_ros.engine.models.lerobot_features import Feature
from phyai_ros.engine.types import PolicyError

PREPROCESSOR = "policy_preprocessor.json"
POSTPROCESSOR = "policy_postprocessor.json"


@dataclass(frozen=True)
class Step:
    """One processor step. file: where its statistics are. statistics: feature key -> statistic
    name -> float32 array. described: the file that has ``config``."""

    name: str
    config: Mapping[str, Any]
    file: str
    statistics: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    described: str = ""


@dataclass(frozen=True)
class Pipeline:
    file: Path
    steps: tuple[Step, ...]

    def find(self, name: str) -> Step | None:
        """The step registered as ``name``, or None."""
        return next((s for s in self.steps if s.name == name), None)

    def require(self, name: str) -> Step:
        step = self.find(name)
        if step is None:
            raise PolicyError(
                f"{self.file}: no step {name!r}; it has {[s.name for s in self.steps]}"
            )
        return step


def read_pipelines(
    directory: Path, inputs: Sequence[Feature], outputs: Sequence[Feature]
) -> tuple[Pipeline, Pipeline]:
    """In front of the model and behind it. Raises PolicyError."""
    pipelines = None
    if not is_there(directory / PREPROCESSOR):
        pipelines = _legacy_pipelines(directory, inputs, outputs)
    if pipelines is None:
        pipelines = _pipeline(directory, PREPROCESSOR), _pipeline(directory, POSTPROCESSOR)
    return pipelines


def _legacy_pipelines(
    directory: Path, inputs: Sequence[Feature], outputs: Sequence[Feature]
) -> tuple[Pipeline, Pipeline] | None:
    """What a checkpoint without processor files implies; None where it has no statistics either.
    Its modes are those of config.json's ``normalization_mapping``."""
    held = lerobot_legacy.statistics(directory, [f.key for f in inputs], [f.key for f in outputs])
    if held is None:
        return None
    file = directory / lerobot_legacy.WEIGHTS
    steps = [
        Step(name, {}, str(file), found)
        for name, found in zip(
            ("normalizer_processor", "unnormalizer_processor"), held, strict=True
        )
    ]
    return Pipeline(file, (steps[0],)), Pipeline(file, (steps[1],))


def _pipeline(directory: Path, name: str) -> Pipeline:
    file = directory / name
    entries = read_json(file).get("steps")
    if not isinstance(entries, list):
        raise PolicyError(f"{file}: steps must be a list, found {type(entries).__name__}")
    return Pipeline(file, tuple(_step(file, entry) for entry in entries))


def _step(file: Path, entry: Any) -> Step:
    if not isinstance(entry, Mapping):
        raise PolicyError(f"{file}: steps: expected objects, found {entry!r}")
    name = entry.get("registry_name") or entry.get("class")
    if not name:
        raise PolicyError(f"{file}: a step has neither registry_name nor class: {entry!r}")
    state_file = entry.get("state_file")
    if state_file and not is_own_file(str(state_file)):
        raise PolicyError(
            f"{file}: state_file {state_file!r} is not the plain name of a file beside it; a "
            "checkpoint reads nothing outside its own directory"
        )
    config = entry.get("config") or {}
    if not isinstance(config, Mapping):
        raise PolicyError(f"{file}: {name}.config: expected an object, found {config!r}")
    return Step(
        name=str(name),
        config=config,
        file=str(file.parent / state_file) if state_file else str(file),
        statistics=_statistics(file.parent / state_file, file) if state_file else {},
        described=str(file),
    )


def _statistics(file: Path, named_by: Path) -> dict[str, dict[str, np.ndarray]]:
    if not is_there(file):
        found = sorted(p.name for p in file.parent.glob("*.safetensors"))
        raise PolicyError(f"{file}: no such file (named by {named_by}); there are {found}")
    check_inside(file)
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise unreadable(file, error) from error
    result: dict[str, dict[str, np.ndarray]] = {}
    for key, tensor in tensors.items():
        feature, _, statistic = key.rpartition(".")
        result.setdefault(feature, {})[statistic] = tensor.float().numpy()
    return result
