# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Observations -> a flow policy's inputs, and its output -> robot units.

What differs between the ecosystems is in ``Transforms``, made by ``lerobot.py`` or ``openpi.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import tokenize
from phyai_ros.engine.image import check_fits
from phyai_ros.engine.kernels import letterbox
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.paligemma.flow import FlowPolicy, Inputs
from phyai_ros.engine.models.paligemma.prompt import Prompt
from phyai_ros.engine.normalize import Normaliser
from phyai_ros.engine.staging import Grouped, upload
from phyai_ros.engine.tokenize import Tokenizer
from phyai_ros.engine.types import Observation, PolicyError, PolicySpec

TOKEN_BUCKET = 16
"""Prompts are padded to a multiple of this, not to the limit: nothing depends on padding, and
the prefix costs in proportion to its length."""
GRAPH_LENGTHS = (32, 48, 64, 96, 128, 160)
"""``TOKEN_BUCKET`` on a GPU: every length is captured, so there are fewer."""


@dataclass(frozen=True)
class Transforms:
    """One checkpoint's preprocessing and postprocessing.

    slots: camera keys in the order of the model's image slots. absent_last: present cameras move
    to the front (LeRobot) instead of keeping their slot (openpi). pillow: images are resized as
    Pillow does it (openpi), not as torch does (LeRobot). state, action: of the features' own
    width. action_width: columns of the model's output that ``action`` knows. relative: bool
    [action_dim], columns given relative to the state. dtype: of the arithmetic on the host.
    """

    slots: tuple[str, ...]
    absent_last: bool
    pillow: bool
    state: Normaliser
    action: Normaliser
    action_width: int
    relative: np.ndarray
    prompt: Prompt
    tokenizer: Tokenizer
    max_tokens: int
    dtype: type[np.floating]


@dataclass(frozen=True)
class Images:
    """Camera bytes, placed as (request, slot), of ``batch`` requests with ``slots`` used."""

    pictures: Grouped
    batch: int
    slots: int


@dataclass(frozen=True)
class Rest:
    """``Inputs`` without the images."""

    image_mask: Any
    tokens: Any
    token_mask: Any
    state: Any


class FlowAdapter:
    """pi0 and pi0.5, of either ecosystem."""

    solver = "flow_backward"
    zeros_behind = True

    def __init__(self, spec: PolicySpec, model: FlowPolicy, transforms: Transforms):
        self.spec = spec
        self.model = model
        self.transforms = transforms
        vocabulary = model.config.language.vocabulary
        self._limit = tokenize.Limit(transforms.max_tokens, vocabulary, spec.checkpoint)
        self._relative = np.flatnonzero(transforms.relative)
        self.token_lengths: tuple[int, ...] = ()
        """Captured prompt lengths, rising; empty where nothing is captured."""

    @property
    def device(self) -> torch.device:
        return self.model.action_in.weight.device

    @property
    def trained_delay(self) -> int:
        """Most committed rows that the model was trained with (guidance ``rtc_trained``)."""
        return self.model.config.trained_delay

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return batch, self.spec.horizon, self.spec.model_action_dim

    # -- observation -> inputs --------------------------------------------------------------
    def prepare(self, observations: Sequence[Observation]) -> Inputs:
        pictures = self.place(upload(self.stage_images(observations), self.device))
        return self.join(pictures, upload(self.stage_rest(observations), self.device))

    def stage_images(self, observations: Sequence[Observation]) -> Images:
        placed, used = self._slots(observations)
        side = self.model.config.vision.image_size
        for observation, cameras in zip(observations, placed, strict=True):
            for _, key in cameras:
                check_fits(key, np.asarray(observation.images[key]), side, side)
        pictures = (
            ((i, used.index(slot)), np.asarray(observation.images[key]))
            for i, (observation, cameras) in enumerate(zip(observations, placed, strict=True))
            for slot, key in cameras
        )
        return Images(Grouped.of(pictures, self._rows), len(observations), len(used))

    def _rows(self, height: int, width: int) -> np.ndarray | None:
        """The rows of a camera image that go to a GPU."""
        side = self.model.config.vision.image_size
        if self.transforms.pillow or self.device.type == "cpu":
            return None
        return letterbox.rows_seen(height, width, side, side)

    def stage_rest(self, observations: Sequence[Observation]) -> Rest:
        placed, used = self._slots(observations)
        mask = np.zeros((len(placed), len(used)), bool)
        for row, cameras in zip(mask, placed, strict=True):
            row[[used.index(slot) for slot, _ in cameras]] = True
        states = [self._state(o) for o in observations]
        rows = [self._tokens(o.instruction, s) for o, s in zip(observations, states, strict=True)]
        length = self._length(max(map(len, rows)))
        tokens, token_mask = tokenize.pad(rows, value=0, left=False, length=length)
        state = np.zeros((len(states), self.model.config.state_width), np.float32)
        for row, values in zip(state, states, strict=True):
            row[: len(values)] = values
        return Rest(mask, tokens, token_mask, state)

    def place(
        self, images: Images, operators: type[Operators] | Operators = Operators
    ) -> torch.Tensor:
        """-> float32 [batch, slots, 3, S, S] in [-1, 1]; -1 where a request has no such camera."""
        side, given = self.model.config.vision.image_size, images.pictures
        pillow = self.transforms.pillow
        groups = [
            (operators.letterbox(pixels, side, side, height=height, pillow=pillow), places)
            for pixels, places, height in zip(
                given.stacks, given.places, given.heights, strict=True
            )
        ]
        shape = (images.batch, images.slots, 3, side, side)
        whole = tuple((i, slot) for i in range(images.batch) for slot in range(images.slots))
        if len(groups) == 1 and groups[0][1] == whole:
            return groups[0][0].view(shape)
        out = torch.full(shape, -1.0, device=self.device)
        for pictures, places in groups:
            for picture, (i, slot) in zip(pictures, places, strict=True):
                out[i, slot] = picture
        return out

    def join(self, pictures: torch.Tensor, rest: Rest) -> Inputs:
        return Inputs(pictures, rest.image_mask, rest.tokens, rest.token_mask, rest.state)

    def _length(self, longest: int) -> int:
        captured = next((n for n in self.token_lengths if n >= longest), None)
        if captured is not None:
            return captured
        return min(-(-longest // TOKEN_BUCKET) * TOKEN_BUCKET, self.transforms.max_tokens)

    def graph_lengths(self, observations: Sequence[Observation]) -> tuple[int, ...]:
        """The prompt lengths to capture: those that hold the observations' own."""
        own = max(len(self._tokens(o.instruction, self._state(o))) for o in observations)
        most = self.transforms.max_tokens
        return (*(n for n in GRAPH_LENGTHS if own <= n < most), most)

    def _slots(
        self, observations: Sequence[Observation]
    ) -> tuple[list[list[tuple[int, str]]], list[int]]:
        """Each request's cameras, and the slots used. An absent camera's tokens are masked and take
        no position, so a slot that no request of the batch fills is left out: nothing changes but
        the time it would cost."""
        placed = [self._placed(observation) for observation in observations]
        return placed, sorted({slot for cameras in placed for slot, _ in cameras})

    def _placed(self, observation: Observation) -> list[tuple[int, str]]:
        """(slot, camera key) of the cameras that are there."""
        slots = self.transforms.slots
        present = [(i, key) for i, key in enumerate(slots) if key in observation.images]
        if not present:
            raise PolicyError(
                f"{self.spec.checkpoint}: an observation has none of the cameras "
                f"{', '.join(slots)}; it has {', '.join(observation.images) or 'none'}"
            )
        if self.transforms.absent_last:
            return [(i, key) for i, (_, key) in enumerate(present)]
        return present

    def _state(self, observation: Observation) -> np.ndarray:
        raw = np.asarray(observation.state)
        if raw.shape != (self.spec.state_dim,):
            raise PolicyError(
                f"{self.spec.checkpoint}: state: expected {self.spec.state_dim} values "
                f"({', '.join(self.spec.state_names)}), found shape {list(raw.shape)}"
            )
        if not np.isfinite(raw).all():
            raise PolicyError(f"{self.spec.checkpoint}: state is not finite: {raw.tolist()}")
        return self.transforms.state.normalise(raw.astype(self.transforms.dtype))

    def _tokens(self, instruction: str, state: np.ndarray) -> list[int]:
        pieces = self.transforms.prompt(instruction, state)
        return self._limit.encode(self.transforms.tokenizer, pieces)

    # -- model output <-> robot units -------------------------------------------------------
    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        known = actions[..., : self.transforms.action_width]
        return [
            self._robot_units(chunk, observation)
            for chunk, observation in zip(known, observations, strict=True)
        ]

    def _robot_units(self, chunk: np.ndarray, observation: Observation) -> np.ndarray:
        raw = self.transforms.action.unnormalise(chunk)[..., : self.spec.action_dim]
        return (raw + self._offset(observation, raw.dtype)).astype(np.float64)

    def encode(self, actions: np.ndarray, observation: Observation) -> np.ndarray:
        raw = np.asarray(actions).astype(self.transforms.dtype)
        normalised = self.transforms.action.as_trained(raw - self._offset(observation, raw.dtype))
        out = np.zeros((len(actions), self.spec.model_action_dim), np.float32)
        out[:, : self.spec.action_dim] = normalised
        return out

    def _offset(self, observation: Observation, dtype: np.dtype) -> np.ndarray | float:
        """What relative columns are relative to: the observation's own state, column by column."""
        if not self._relative.size:
            return 0.0
        offset = np.zeros(self.spec.action_dim, dtype)
        state = np.asarray(observation.state)
        offset[self._relative] = state[self._relative].astype(dtype)
        return offset
