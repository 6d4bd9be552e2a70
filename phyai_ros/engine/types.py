# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What goes into a policy and what comes out of it. No torch here: callers need none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

STAGES = ("wait", "preprocess", "vision", "prefix", "solver", "convert", "deliver")


@dataclass(frozen=True)
class Observation:
    """One moment of the robot, in the checkpoint's own order and units.

    images: camera key -> uint8 [height, width, 3], RGB. Keys are those of ``PolicySpec.cameras``;
        a key of ``PolicySpec.optional_cameras`` may be left out.
    state: float [state_dim], raw (not normalised), in the order of ``PolicySpec.state_names``.
    instruction: the task in words.
    stamp: seconds, when the images were taken.
    history: earlier moments, oldest first, one control step apart, the last one a step before this
        one; the newest ``PolicySpec.history`` of them are used. Whoever calls keeps them: the
        engine holds no state between requests. Where fewer are given, the oldest moment there is
        stands in for the missing ones, as at the start of an episode. Only images and state of
        them are read.
    """

    images: Mapping[str, np.ndarray]
    state: np.ndarray
    instruction: str
    stamp: float = 0.0
    history: Sequence[Observation] = ()


@dataclass(frozen=True)
class Guidance:
    """What the next chunk has to agree with, for real-time chunking (arXiv 2506.07339).

    leftover: float [rows, action_dim], raw robot-unit actions not yet executed; row 0 belongs to
        the observation's tick. Never padded: the runner pads and masks.
    committed: leading rows that will be executed whatever the new chunk says (the delay d).
    method: one of ``PolicySpec.guidance_methods``.
    execution_horizon: rows executed before the next handoff (the paper's s).
    columns: bool [action_dim], the columns to agree in, None for all. Grippers and columns that
        move nothing may be left out. A method that takes whole rows as given does not look at it.
    """

    leftover: np.ndarray
    committed: int
    method: str
    execution_horizon: int
    columns: np.ndarray | None = None


@dataclass(frozen=True)
class ActionChunk:
    """Future actions of one observation.

    actions: float64 [horizon, action_dim], robot units, absolute, in the order of
        ``PolicySpec.action_names``.
    normalised: float32 [rows, model_action_dim], as the solver left it: every row that the network
        denoises, of which ``actions`` may be a part (Diffusion Policy's lie between past and end).
    stages: seconds by stage name (``STAGES``); only what the engine itself measures.
    """

    actions: np.ndarray
    normalised: np.ndarray
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FeatureSpec:
    """A named slice of the state or action vector, as the checkpoint groups it.

    size: columns. normalisation: the ecosystem's own word for the mode. relative: of an action,
    whether the policy gives it relative to the state. statistics: name (min, max, mean, std, q01,
    q99, q10, q90) -> [size], or one row a time step [steps, size]; raw units.
    """

    name: str
    size: int
    normalisation: str
    relative: bool = False
    statistics: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicySpec:
    """What a loaded checkpoint is and needs; everything a robot is checked against.

    cameras: camera keys in the checkpoint's order. optional_cameras: those that may be absent.
    state, action: features in order; their sizes add up to the vector's length.
    state_names, action_names: one name a column where the checkpoint tells, else ``feature.i``.
    checkpoint: its directory. embodiment: the chosen tag, None where there are none; embodiments:
    all that could be. denoising_steps: evaluations of the network a request. model_action_dim:
    columns that it works on, padding included.
    horizon: rows of a chunk. step: seconds between rows, None where the checkpoint does not say.
    guidance_methods: the handoff guidance the solver can do. trained_delay: most committed rows
    that ``rtc_trained`` may be given, 0 where the policy was not trained so.
    max_prompt_tokens: a longer instruction is cut to (GR00T: refused beyond) so many, None for no
    limit. image_size: (height, width) that images are resized to, None where they are not.
    camera_sizes: camera -> (height, width) its images must have; one not named takes any size.
    least_sizes: camera -> (height, width) that its images must have at least.
    ignores: conditions of an observation that the policy does not look at: instruction, state.
    history: earlier observations that a request uses besides its own (``Observation.history``).
    """

    family: str
    checkpoint: str
    cameras: tuple[str, ...]
    optional_cameras: tuple[str, ...]
    state: tuple[FeatureSpec, ...]
    action: tuple[FeatureSpec, ...]
    horizon: int
    denoising_steps: int
    model_action_dim: int
    step: float | None = None
    embodiment: str | None = None
    embodiments: tuple[str, ...] = ()
    guidance_methods: tuple[str, ...] = ()
    trained_delay: int = 0
    max_prompt_tokens: int | None = None
    image_size: tuple[int, int] | None = None
    camera_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ignores: tuple[str, ...] = ()
    history: int = 0
    least_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def fitting_size(self, camera: str, wish: tuple[int, int]) -> tuple[int, int]:
        """(height, width) that the camera's images may have, as near to ``wish`` as they can be."""
        least = self.least_sizes.get(camera, (1, 1))
        height, width = self.camera_sizes.get(camera, wish)
        return max(height, least[0]), max(width, least[1])

    @property
    def state_dim(self) -> int:
        return sum(f.size for f in self.state)

    @property
    def action_dim(self) -> int:
        return sum(f.size for f in self.action)

    @property
    def state_names(self) -> tuple[str, ...]:
        return _column_names(self.state)

    @property
    def action_names(self) -> tuple[str, ...]:
        return _column_names(self.action)


def _column_names(features: Sequence[FeatureSpec]) -> tuple[str, ...]:
    return tuple(
        f.name if f.size == 1 else f"{f.name}.{i}" for f in features for i in range(f.size)
    )


class PolicyError(ValueError):
    """A checkpoint, robot or observation that cannot be used; the text says file, key, expected,
    found and what there is to choose from."""


class MisfitError(PolicyError):
    """Sizes of the model and the checkpoint's weights, or each other, do not agree."""


class FamilyError(PolicyError):
    """The checkpoint does not tell its family and none was named."""


class OtherFamilyError(PolicyError):
    """The checkpoint says that it is of another family than was named. found: which."""

    def __init__(self, text: str, found: str) -> None:
        super().__init__(text)
        self.found = found


class EmbodimentError(PolicyError):
    """The checkpoint has several embodiments and none, or none of them, was named."""

    def __init__(self, text: str, choices: Sequence[str]) -> None:
        super().__init__(text)
        self.choices = tuple(choices)
