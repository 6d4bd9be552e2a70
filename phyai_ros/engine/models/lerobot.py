# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's ``save_pretrained`` layout: config.json, policy_preprocessor.json,
policy_postprocessor.json and the safetensors files that hold their statistics; in older
checkpoints, the statistics among the weights.

Reading only: nothing here normalises or knows a model family. Every refusal is a ``PolicyError``
that names the file, the key, what was expected and what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from phyai_ros.engine.fields import flag, whole
from phyai_ros.engine.files import check_inside, is_own_file, read_json
from phyai_ros.engine.models import lerobot_legacy, lerobot_steps
from phyai_ros.engine.types import FeatureSpec, PolicyError

CONFIG = "config.json"
_RELATIVE = "relative_actions_processor"
PREPROCESSOR = "policy_preprocessor.json"
POSTPROCESSOR = "policy_postprocessor.json"

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
STATE, ENVIRONMENT, ACTION = "observation.state", "observation.environment_state", "action"
"""The vectors that LeRobot's models look at, each of its own kind. A data set may have more (the
joints' velocities, say), which are features of the config and read by nobody."""


@dataclass(frozen=True)
class Feature:
    """One entry of ``input_features``/``output_features``. kind: VISUAL, STATE, ENV or ACTION."""

    key: str
    kind: str
    shape: tuple[int, ...]


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


@dataclass(frozen=True)
class Normalisation:
    """How one feature is normalised. statistics: float32, the feature's own shape; of ``file``."""

    mode: str
    eps: float
    statistics: Mapping[str, np.ndarray]
    file: str = ""


@dataclass(frozen=True)
class Layout:
    """A checkpoint directory as LeRobot wrote it."""

    directory: Path
    config: Mapping[str, Any]
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    preprocessor: Pipeline
    postprocessor: Pipeline

    @property
    def cameras(self) -> tuple[str, ...]:
        """Camera keys in the order of config.json's ``input_features``."""
        return tuple(f.key for f in self.inputs if f.kind == "VISUAL")

    @property
    def real_cameras(self) -> tuple[str, ...]:
        """``cameras`` without those that ``empty_cameras`` of the config has put there: places for
        images that never come."""
        return tuple(key for key in self.cameras if ".empty_camera_" not in key)

    @property
    def camera_sizes(self) -> dict[str, tuple[int, int]]:
        """Camera key -> (height, width) of the images that the policy was trained with. Raises
        PolicyError where a shape has its channels elsewhere than in front."""
        for f in self.inputs:
            if f.kind == "VISUAL" and f.shape[0] != 3:
                raise PolicyError(
                    f"{self.directory / CONFIG}: input_features.{f.key}.shape: expected "
                    f"[3, height, width], found {list(f.shape)}"
                )
        return {f.key: (f.shape[1], f.shape[2]) for f in self.inputs if f.kind == "VISUAL"}

    @property
    def states(self) -> tuple[Feature, ...]:
        """The parts of ``Observation.state``, in order: robot, environment. Each may be absent."""
        read = ((STATE, "STATE"), (ENVIRONMENT, "ENV"))
        return tuple(f for known in read for f in self.inputs if (f.key, f.kind) == known)

    @property
    def action(self) -> Feature:
        for feature in self.outputs:
            if (feature.key, feature.kind) == (ACTION, "ACTION"):
                return feature
        raise PolicyError(
            f"{self.directory / CONFIG}: output_features needs {ACTION!r} of type ACTION, found "
            f"{', '.join(f'{f.key!r} of type {f.kind}' for f in self.outputs)}"
        )

    def input_normalisation(self, key: str) -> Normalisation:
        """Of an input feature, from the preprocessor's normalizer_processor."""
        return _normalisation(
            self.preprocessor.require("normalizer_processor"), self._input(key), self.config
        )

    def action_normalisation(self) -> Normalisation:
        """Of the action, from the postprocessor's unnormalizer_processor."""
        return _normalisation(
            self.postprocessor.require("unnormalizer_processor"), self.action, self.config
        )

    def state_specs(self) -> tuple[FeatureSpec, ...]:
        """The state as ``PolicySpec.state``: one spec a feature."""
        return tuple(_spec(f, self.input_normalisation(f.key)) for f in self.states)

    def action_specs(self) -> tuple[FeatureSpec, ...]:
        """The action as ``PolicySpec.action``: one spec, or one a column where the checkpoint
        names its columns (the relative-action step's ``action_names``) or only some are relative.
        """
        whole = _spec(self.action, self.action_normalisation())
        mask = self.relative_mask()
        names = self._action_names()
        if len(names) != len(mask):
            if len(set(mask)) == 1:
                return (replace(whole, relative=mask[0]),)
            names = tuple(f"{whole.name}.{i}" for i in range(len(mask)))
        return tuple(
            FeatureSpec(
                name,
                1,
                whole.normalisation,
                relative,
                {k: v[i : i + 1] for k, v in whole.statistics.items()},
            )
            for i, (name, relative) in enumerate(zip(names, mask, strict=True))
        )

    def relative_mask(self) -> tuple[bool, ...]:
        """Which action columns the policy gives relative to the state, one a column. A column is
        left out when an ``exclude_joints`` word occurs in its name (case folded); those without a
        name are relative. (Of a data set that keeps its names in groups, LeRobot writes the
        groups' names.)"""
        (size,) = self.action.shape
        step = self.preprocessor.find(_RELATIVE)
        if step is None or not flag(
            step.config, "enabled", False, f"{step.described}: {step.name}"
        ):
            return (False,) * size
        excluded = [str(e).lower() for e in step.config.get("exclude_joints") or () if e]
        names = self._action_names()[:size]
        named = [not any(word in name.lower() for word in excluded) for name in names]
        return (*named, *[True] * (size - len(named)))

    def _action_names(self) -> tuple[str, ...]:
        step = self.preprocessor.find(_RELATIVE)
        names = step.config.get("action_names") if step else None
        return tuple(map(str, names or ()))

    def _input(self, key: str) -> Feature:
        for feature in self.inputs:
            if feature.key == key:
                return feature
        raise PolicyError(
            f"{self.directory / CONFIG}: input_features has no {key!r}; "
            f"it has {[f.key for f in self.inputs]}"
        )


def read_layout(
    directory: str | Path,
    config: Mapping[str, Any] | None = None,
    also: Collection[str] = (),
) -> Layout:
    """Read everything of a LeRobot checkpoint but its weights.

    config: config.json's content where the caller has read it already. also: processor steps that
    the family does beside those of ``lerobot_steps.KNOWN``. Raises PolicyError.
    """
    directory = Path(directory)
    config_file = directory / CONFIG
    config = read_json(config_file) if config is None else config
    if config.get("use_peft"):
        raise PolicyError(
            f"{config_file}: use_peft is {config['use_peft']!r}: the weights here lack what the "
            "adapter changes; merge it into them, and set use_peft to false"
        )
    inputs = _features(config, "input_features", config_file)
    outputs = _features(config, "output_features", config_file)
    pipelines = None
    if not (directory / PREPROCESSOR).is_file():
        pipelines = _legacy_pipelines(directory, inputs, outputs)
    if pipelines is None:
        pipelines = _pipeline(directory, PREPROCESSOR), _pipeline(directory, POSTPROCESSOR)
    for pipeline in pipelines:
        lerobot_steps.check(pipeline.file, [step.name for step in pipeline.steps], also)
    return Layout(directory, config, inputs, outputs, *pipelines)


def refuse_embodiment(directory: Path, family: str, embodiment: str | None) -> None:
    """For families whose LeRobot checkpoints are of one robot: a tag asked for is a mistake."""
    if embodiment is not None:
        raise PolicyError(
            f"{directory}: embodiment {embodiment!r} asked for, but a LeRobot {family} checkpoint "
            "has no embodiment tags"
        )


def _features(config: Mapping[str, Any], key: str, file: Path) -> tuple[Feature, ...]:
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
    if not file.is_file():
        found = sorted(p.name for p in file.parent.glob("*.safetensors"))
        raise PolicyError(f"{file}: no such file (named by {named_by}); there are {found}")
    check_inside(file)
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise PolicyError(f"{file}: not readable as safetensors: {error}") from error
    result: dict[str, dict[str, np.ndarray]] = {}
    for key, tensor in tensors.items():
        feature, _, statistic = key.rpartition(".")
        result.setdefault(feature, {})[statistic] = tensor.float().numpy()
    return result


def _normalisation(step: Step, feature: Feature, config: Mapping[str, Any]) -> Normalisation:
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


def _spec(feature: Feature, normalisation: Normalisation) -> FeatureSpec:
    (size,) = feature.shape
    return FeatureSpec(
        name=feature.key,
        size=size,
        normalisation=normalisation.mode,
        statistics={
            k: v.reshape(-1) for k, v in normalisation.statistics.items() if v.size == size
        },
    )
