# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""State and action vectors of a LeRobot checkpoint, raw and normalised, on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phyai_ros.engine import normalize
from phyai_ros.engine.models.lerobot import CONFIG, Layout
from phyai_ros.engine.models.lerobot_features import Feature
from phyai_ros.engine.models.lerobot_normalisation import Normalisation
from phyai_ros.engine.normalize import Normaliser
from phyai_ros.engine.types import Observation, PolicyError


class Vectors:
    """``Observation.state`` is the STATE feature followed by the ENV feature, each of which may be
    absent. Raises PolicyError for relative actions that the state does not cover."""

    def __init__(self, layout: Layout):
        file = layout.directory / CONFIG
        self._parts: dict[str, tuple[slice, Normaliser]] = {}
        start = 0
        for feature in layout.states:
            (size,) = feature.shape
            own = normaliser(layout.input_normalisation(feature.key), feature, layout)
            self._parts[feature.kind] = slice(start, start + size), own
            start += size
        (self.action_dim,) = layout.action.shape
        self._action = normaliser(layout.action_normalisation(), layout.action, layout)
        self._relative = np.flatnonzero(layout.relative_mask())
        if self._relative.size and self.dim("STATE") < self.action_dim:
            raise PolicyError(
                f"{file}: relative actions need a state as long as the action "
                f"({self.action_dim}), found {self.dim('STATE')}"
            )

    def dim(self, kind: str) -> int:
        """Size of the STATE or ENV part, 0 where the policy has none."""
        where, _ = self._parts.get(kind, (slice(0, 0), None))
        return where.stop - where.start

    def normalised(self, observations: Sequence[Observation], kind: str) -> np.ndarray | None:
        """float32 [N, dim] of one part of the state, None where the policy has none."""
        if kind not in self._parts:
            return None
        where, own = self._parts[kind]
        raw = np.stack([np.asarray(o.state, np.float32)[where] for o in observations])
        return own.normalise(raw)

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        """Normalised [B, rows, width] (columns beyond the action's are padding) -> per request
        float64 [rows, action_dim], robot units, absolute."""
        raw = self._action.unnormalise(actions[..., : self.action_dim])
        return [
            (rows + self._offset(observation)).astype(np.float64)
            for rows, observation in zip(raw, observations, strict=True)
        ]

    def encode(self, actions: np.ndarray, observation: Observation, width: int) -> np.ndarray:
        """The inverse of ``decode``: float32 [rows, width], zero in the padding."""
        raw = np.asarray(actions, np.float32) - self._offset(observation)
        out = np.zeros((len(raw), width), np.float32)
        out[:, : self.action_dim] = self._action.as_trained(raw)
        return out

    def _offset(self, observation: Observation) -> np.ndarray:
        """float32 [action_dim]: what relative columns are relative to, 0 elsewhere."""
        offset = np.zeros(self.action_dim, np.float32)
        offset[self._relative] = np.asarray(observation.state, np.float32)[self._relative]
        return offset


def normaliser(given: Normalisation, feature: Feature, layout: Layout) -> Normaliser:
    """Of a vector [feature's size]. given: from ``layout``. Raises PolicyError by file and key."""
    return normalize.lerobot(
        given.mode,
        given.statistics,
        f"{given.file or layout.directory}: {feature.key}",
        dim=feature.shape[0],
        eps=given.eps,
    )
