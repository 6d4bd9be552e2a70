# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""LeRobot's ``save_pretrained`` layout: config.json, policy_preprocessor.json,
policy_postprocessor.json and the safetensors files that hold their statistics; in older
checkpoints, the statistics among the weights.

Reading only: nothing here normalises or knows a model family. Every refusal is a ``PolicyError``
that names the file, the key, what was expected and what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from phyai_ros.engine.fields import flag
from phyai_ros.engine.files import read_json
from phyai_ros.engine.models import lerobot_steps
from phyai_ros.engine.models.lerobot_features import Feature, read_features
from phyai_ros.engine.models.lerobot_normalisation import Normalisation, read_normalisation
from phyai_ros.engine.models.lerobot_pipeline import Pipeline, Step, read_pipelines
from phyai_ros.engine.types import FeatureSpec, PolicyError

__all__ = [
    "ACTION",
    "CONFIG",
    "ENVIRONMENT",
    "STATE",
    "Feature",
    "Layout",
    "Normalisation",
    "Pipeline",
    "Step",
    "read_layout",
    "refuse_embodiment",
]

CONFIG = "config.json"
_RELATIVE = "relative_actions_processor"
STATE, ENVIRONMENT, ACTION = "observation.state", "observation.environment_state", "action"
"""The vectors that LeRobot's models look at, each of its own kind. A data set may have more (the
joints' velocities, say), which are features of the config and read by nobody."""


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
        return read_normalisation(
            self.preprocessor.require("normalizer_processor"), self._input(key), self.config
        )

    def action_normalisation(self) -> Normalisation:
        """Of the action, from the postprocessor's unnormalizer_processor."""
        return read_normalisation(
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
    inputs = read_features(config, "input_features", config_file)
    outputs = read_features(config, "output_features", config_file)
    pipelines = read_pipelines(directory, inputs, outputs)
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
