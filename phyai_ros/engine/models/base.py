# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The contract between the runner and a model family.

A family is one folder: ``config.py`` (the ecosystem's own config.json, parsed), ``model.py``
(stateless torch modules) and ``adapter.py`` (what is specific: preprocessing, conditions, action
conversion). The runner owns state and order; families never loop over denoising steps themselves.

One request, batch B:
    inputs    = adapter.prepare(observations)        host -> device, what depends on it
    features  = model.vision(inputs)                 image tokens
    prefix    = model.prefix(inputs, features)       once a request: keys, values, masks
    constants = model.constants(steps)               once a load: time embeddings and modulation
    x         = solver(lambda x, i: model.predict(x, i, prefix, constants), noise)
    actions   = adapter.decode(x, observations)      robot units
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from phyai_ros.engine.kernels.flow_step import Step
from phyai_ros.engine.solver import RtcIdentity
from phyai_ros.engine.types import Observation, PolicySpec


class Model(Protocol):
    """Stateless: no method keeps a tensor of a request."""

    def vision(self, inputs: Any) -> Any: ...

    def prefix(self, inputs: Any, features: Any) -> Any: ...

    def constants(self, steps: int) -> Any: ...

    def predict(self, x: torch.Tensor, step: int, prefix: Any, constants: Any) -> torch.Tensor:
        """x [B, horizon, model_action_dim] at denoising step ``step`` -> what ``solver`` names:
        a velocity, a noise, a clean sample, or for a single pass the actions."""
        ...


class CommittingModel(Model, Protocol):
    """A model trained to take leading rows of the chunk as already decided (arXiv 2512.05964)."""

    def commit(self, prefix: Any, committed: torch.Tensor) -> Any:
        """prefix for chunks whose rows ``committed`` (bool [B, horizon]) hold clean actions."""
        ...


class AdvancingModel(Model, Protocol):
    """A fused model that takes a flow's Euler step along in its last pass."""

    def advance(
        self,
        x: torch.Tensor,
        step: int,
        prefix: Any,
        constants: Any,
        guide: RtcIdentity,
        numbers: Step,
    ) -> torch.Tensor:
        """x at denoising step ``step`` -> x at the next, float32: ``flow_step`` of ``predict``, for
        steps in their order."""
        ...


class Adapter(Protocol):
    """Everything a family does differently, and nothing it shares."""

    spec: PolicySpec
    model: Model
    solver: Any
    """Name of a solver in ``engine/solver.py``, or a ``solver.Solver`` with its own schedule."""

    def prepare(self, observations: Sequence[Observation]) -> Any:
        """Observations -> the model's inputs on its device. Raises PolicyError by name on a
        missing camera, a wrong state length or a non-finite value."""
        ...

    def noise_shape(self, batch: int) -> tuple[int, ...]: ...

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        """Solver output, float32 [B, horizon, model_action_dim] on the host -> per request float64
        [horizon, action_dim], robot units, absolute; nothing of it lies in ``actions``."""
        ...


class StagedAdapter(Adapter, Protocol):
    """An adapter whose ``prepare`` is ``join`` of what ``place`` makes of the uploaded images and
    the uploaded rest. The runner then captures the device's parts, each with one copy from pinned
    memory in front of it; the rest is made while the device sees the images.

    What is staged is a structure (``structure.flatten``) of numpy arrays, CPU tensors and
    ``staging.Stack``; of images, of ``staging.Stack`` alone. ``place`` and ``join`` read no value
    back and depend on nothing but the structure.
    """

    def stage_images(self, observations: Sequence[Observation]) -> Any:
        """The host's part of what ``vision`` looks at: the observations' own arrays, arranged by
        nothing but their keys and shapes. Raises what ``prepare`` raises."""
        ...

    def stage_rest(self, observations: Sequence[Observation]) -> Any:
        """The host's part of everything else."""
        ...

    def place(self, images: Any, operators: Any) -> Any:
        """``stage_images``'s arrays on the device -> pictures. operators: ``layers.operators``."""
        ...

    def join(self, pictures: Any, rest: Any) -> Any:
        """Pictures and ``stage_rest``'s arrays on the device -> the model's inputs."""
        ...


class GuidableAdapter(Adapter, Protocol):
    """An adapter whose ``spec.guidance_methods`` is not empty.

    zeros_behind: whether the columns of the model that the checkpoint does not use were trained to
    be zero, so that guidance may hold them there.
    """

    zeros_behind: bool

    def encode(self, actions: np.ndarray, observation: Observation) -> np.ndarray:
        """The inverse of ``decode``: [rows, action_dim], robot units, absolute -> float32
        [rows, model_action_dim], normalised (relative features against this observation's state;
        not clipped), zero in the columns that the checkpoint does not use."""
        ...
