# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7's own preprocessing, conditions and action conversion, and how it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import shapes, tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.guidance import RTC_IDENTITY, RTC_OVERLAP, RTC_VJP, SEAM
from phyai_ros.engine.image import images_in_order
from phyai_ros.engine.models.gr00t_n17.codec import Codec
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.images import patches_of
from phyai_ros.engine.models.gr00t_n17.layout import Layout, from_ids
from phyai_ros.engine.models.gr00t_n17.model import GrootModel, Inputs
from phyai_ros.engine.models.gr00t_n17.read import (
    EMBEDDING,
    HEAD,
    PREFIX,
    read_config,
    read_image_processor,
    read_sidecars,
)
from phyai_ros.engine.models.gr00t_n17.sidecars import Sidecars
from phyai_ros.engine.models.gr00t_n17.vision import Grid
from phyai_ros.engine.staging import Grouped, upload
from phyai_ros.engine.types import MisfitError, Observation, PolicyError, PolicySpec

IGNORED_KEYS = (r"(_groot_model\.)?backbone\.model\.lm_head\.weight",)
_DEFAULT_INSTRUCTION = "Perform the task."
_MAX_PROMPT_TOKENS = 1024
"""Far beyond any instruction seen in training; the reference has no limit but its memory."""


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> GrootAdapter:
    """Raises PolicyError naming file and key of whatever does not fit."""
    with checkpoint.sized_by("model_name"):
        config = read_config(checkpoint)
        sidecars = read_sidecars(checkpoint, embodiment)
        tokenizer = tokenize.load(checkpoint, sidecars.backbone)
        adapter = GrootAdapter(checkpoint, config, sidecars, tokenizer, device)
        with shapes.only():
            model = GrootModel(config)
        checkpoint.fill(
            model,
            device=device,
            dtype=dtype,
            rename=lambda key: key.removeprefix(PREFIX),
            ignore=IGNORED_KEYS,
            tied={EMBEDDING: next((k for k in checkpoint.keys if k.endswith(HEAD)), HEAD)},
        )
    adapter.model = model.eval()
    return adapter


@dataclass(frozen=True)
class Rest:
    """``Inputs`` without the patches; on the host its layout's tensors are there, too."""

    layout: Layout
    state: Any
    embodiments: tuple[int, ...]


class GrootAdapter:
    """One embodiment of a checkpoint. ``model`` is set by ``load``."""

    solver = "flow_forward"
    zeros_behind = False  # the loss leaves them out

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: GrootConfig,
        sidecars: Sidecars,
        tokenizer: tokenize.Tokenizer,
        device: torch.device,
    ):
        self.config, self.device = config, device
        self.model: GrootModel
        self.sidecars = sidecars
        self.rtc_ramp_rate = config.rtc_ramp_rate
        self.codec = Codec(sidecars, config.max_state_dim, config.max_action_dim, config.horizon)
        extra = read_image_processor(checkpoint, sidecars.backbone, config.vision)
        self.rules = sidecars.rules(sidecars.kwargs, extra, sidecars.where["images"])
        self._tokenizer = tokenizer
        self._layouts: dict[tuple[object, ...], Layout] = {}
        self._grids: dict[tuple[int, ...], Grid] = {}
        self.token_lengths: tuple[int, ...] = ()
        """Captured prompt lengths, rising; empty where nothing is captured."""
        video = sidecars.modality.get("video") or {}
        self.cameras = tuple(video.get("modality_keys") or ())
        self.frames = max(1, len(video.get("delta_indices") or [0]))
        self._check()
        self.spec = PolicySpec(
            family="gr00t_n17",
            checkpoint=str(checkpoint.root),
            cameras=self.cameras,
            optional_cameras=(),
            state=tuple(g.spec for g in self.codec.state),
            action=tuple(g.spec for g in self.codec.action),
            horizon=self.codec.horizon,
            denoising_steps=config.steps,
            model_action_dim=config.max_action_dim,
            embodiment=sidecars.embodiment,
            embodiments=sidecars.embodiments,
            max_prompt_tokens=_MAX_PROMPT_TOKENS,
            guidance_methods=(RTC_OVERLAP, RTC_IDENTITY, RTC_VJP, SEAM),
        )

    def _check(self) -> None:
        where = self.sidecars.where
        if not self.cameras or not all(isinstance(key, str) for key in self.cameras):
            raise PolicyError(
                f"{where['modality']}.video.modality_keys: expected names of cameras, "
                f"found {list(self.cameras)}"
            )
        if not 0 <= self.sidecars.embodiment_id < self.config.embodiments:
            raise PolicyError(
                f"{where['ids']}: embodiment {self.sidecars.embodiment!r} has id "
                f"{self.sidecars.embodiment_id}; the model has 0 to {self.config.embodiments - 1}"
            )
        if self.config.state_history != 1:
            raise PolicyError(
                f"config.json: state_history_length {self.config.state_history}: expected 1"
            )
        for token, expected in (
            ("<|image_pad|>", self.config.image_token_id),
            ("<|vision_start|>", self.config.vision_start_id),
            ("<|vision_end|>", self.config.vision_end_id),
        ):
            found = self._tokenizer.id(token)
            if found != expected:
                raise MisfitError(
                    f"tokenizer: token {token!r}: expected id {expected}, found {found}"
                )

    # -- observation -> inputs -------------------------------------------------------------------
    def prepare(self, observations: Sequence[Observation]) -> Inputs:
        patches = self.place(upload(self.stage_images(observations), self.device))
        return self.join(patches, upload(self.stage_rest(observations), self.device))

    def stage_images(self, observations: Sequence[Observation]) -> Grouped:
        """Camera bytes, placed by their number."""
        return Grouped.of(((i, 0), image) for i, image in enumerate(self._images(observations)))

    def stage_rest(self, observations: Sequence[Observation]) -> Rest:
        grids = [self._grid(image.shape) for image in self._images(observations)]
        each = len(self.cameras) * self.frames
        rows = tuple(
            (self.prompt(o.instruction), tuple(grids[i * each : (i + 1) * each]))
            for i, o in enumerate(observations)
        )
        state = np.stack([self.codec.encode_state(o.state) for o in observations])
        embodiments = (self.sidecars.embodiment_id,) * len(observations)
        return Rest(self.layout(rows), state[:, None], embodiments)

    def place(self, images: Grouped, operators: object = None) -> torch.Tensor:
        """-> patches of all images, in order. operators: not looked at; resizing is torch's."""
        parts: dict[int, torch.Tensor] = {}
        for pixels, places in zip(images.stacks, images.places, strict=True):
            patches, _ = patches_of(pixels, self.rules, self.config.vision)
            if len(images.stacks) == 1:
                return patches.flatten(0, 1)
            parts |= {i: patch for (i, _), patch in zip(places, patches, strict=True)}
        return torch.cat([parts[i] for i in range(len(parts))])

    def join(self, pictures: torch.Tensor, rest: Rest) -> Inputs:
        return Inputs(rest.layout, pictures, rest.state, rest.embodiments)

    def _images(self, observations: Sequence[Observation]) -> list[np.ndarray]:
        images = []
        for observation in observations:
            images += images_in_order(observation.images, self.cameras) * self.frames
        return images

    def _grid(self, shape: tuple[int, ...]) -> Grid:
        """Patches down and across an image of this shape."""
        known = self._grids.get(shape)
        if known is None:
            blank = torch.zeros(1, *shape, dtype=torch.uint8)
            known = patches_of(blank, self.rules, self.config.vision)[1]
            if len(self._grids) >= 64:
                self._grids.clear()
            self._grids[shape] = known
        return known

    def prompt(self, instruction: str) -> str:
        """The instruction as the model's prompt has it; an empty one has words of its own."""
        return (
            formalise(instruction)
            if self.sidecars.formalize_language
            else (instruction or _DEFAULT_INSTRUCTION)
        )

    def layout(self, rows: tuple[tuple[str, tuple[Grid, ...]], ...]) -> Layout:
        """rows: each request's text and image grids. On the host; kept: prompts seldom change."""
        known = self._layouts.get((self.token_lengths, *rows))
        if known is None:
            merge = self.config.vision.merge
            tokens = [
                self._tokenizer.encode(chat(text, [h * w // merge**2 for h, w in grids]))
                for text, grids in rows
            ]
            for (text, grids), row in zip(rows, tokens, strict=True):
                tokenize.check_known(row, self.config.text.vocab, text)
                images = sum(h * w // merge**2 for h, w in grids)
                if row.count(self.config.image_token_id) != images:
                    raise PolicyError(
                        "instruction: expected words, found the token that stands for an image: "
                        f"{text[:40]!r}"
                    )
                words = len(row) - images
                if words > _MAX_PROMPT_TOKENS:
                    raise PolicyError(
                        f"instruction: at most {_MAX_PROMPT_TOKENS} tokens, found {words}: "
                        f"{text[:40]!r}..."
                    )
            longest = max(map(len, tokens))
            length = next((n for n in self.token_lengths if n >= longest), None)
            ids, real = tokenize.pad(tokens, value=self._pad_id(), left=True, length=length)
            known = from_ids(
                ids,
                real,
                [g for _, grids in rows for g in grids],
                image_token=self.config.image_token_id,
                merge=merge,
                device=torch.device("cpu"),
            )
            if length is not None:  # one form for every prompt of a captured length
                known = replace(known, padded=True)
            if len(self._layouts) >= 64:
                self._layouts.clear()
            self._layouts[(self.token_lengths, *rows)] = known
        return known

    def graph_lengths(self, observations: Sequence[Observation]) -> tuple[int, ...]:
        """The prompt lengths to capture: from the observations' own, for up to about 60 tokens
        of instruction more."""
        own = self.stage_rest(observations).layout.ids.shape[1]
        first = -(-own // 16) * 16
        return tuple(first + 16 * i for i in range(5))

    def _pad_id(self) -> int:
        found = self._tokenizer.id("<|endoftext|>")
        return 0 if found is None else found

    # -- noise and actions -----------------------------------------------------------------------
    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return (batch, self.config.horizon, self.config.max_action_dim)

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        return [self.codec.decode(a, o.state) for a, o in zip(actions, observations, strict=True)]

    def encode(self, actions: np.ndarray, observation: Observation) -> np.ndarray:
        return self.codec.encode(actions, observation.state)


def formalise(instruction: str) -> str:
    """Lower case, and nothing but letters, digits, underscores and spaces."""
    text = (instruction or _DEFAULT_INSTRUCTION).lower()
    return "".join(c for c in text if c.isalnum() or c.isspace() or c == "_")


def chat(text: str, image_tokens: Sequence[int]) -> str:
    """Qwen3-VL's template of one user message: the images, then the text."""
    images = "".join(
        f"<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>" for count in image_tokens
    )
    return f"<|im_start|>user\n{images}{text}<|im_end|>\n"
