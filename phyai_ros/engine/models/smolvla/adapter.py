# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA from a LeRobot checkpoint: observations -> the model's inputs -> actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import torch

from phyai_ros.engine import guidance, shapes, tokenize
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.image import check_fits
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models import lerobot_steps
from phyai_ros.engine.models.lerobot import CONFIG, Layout, read_layout, refuse_embodiment
from phyai_ros.engine.models.lerobot_images import ImageNormaliser, fit_left_top, planes
from phyai_ros.engine.models.lerobot_legacy import KEYS as LEGACY_STATISTICS
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import (
    FLOAT32,
    TIED,
    UNUSED,
    SmolVlaInputs,
    SmolVlaModel,
    rename,
)
from phyai_ros.engine.models.smolvla.staged import Images, Rest
from phyai_ros.engine.staging import Grouped, upload
from phyai_ros.engine.tokenize import Tokenizer
from phyai_ros.engine.types import Observation, PolicyError, PolicySpec

_EMBEDDING = "model.vlm_with_expert.vlm.model.text_model.embed_tokens.weight"
_MARKS = ("<fake_token_around_image>", "<global-img>")
_TOKEN_BUCKET = 16
"""Prompts are padded to a multiple of this: nothing depends on padding, and few lengths occur."""


class SmolVlaAdapter:
    """Any camera may be absent as long as one is there. Absent cameras are left out, or stand as
    masked images behind the present ones where another request of the batch has more; LeRobot's
    ``empty_cameras`` are such images too. A masked image changes nothing: nobody attends to it and
    positions do not count it. Only the marks around images, in checkpoints that have them, stand
    around LeRobot's empty ones too, and are seen."""

    solver = "flow_backward"
    zeros_behind = True

    def __init__(
        self,
        spec: PolicySpec,
        model: SmolVlaModel,
        layout: Layout,
        vectors: Vectors,
        tokenizer: Tokenizer,
    ):
        self.spec = spec
        self.model = model
        self.vectors = vectors
        self.tokenizer = tokenizer
        self._normalise = {
            key: ImageNormaliser(layout.input_normalisation(key), self.device)
            for key in spec.cameras
        }
        most = spec.max_prompt_tokens or model.config.tokenizer_max_length
        self._limit = tokenize.Limit(most, model.config.vlm.text.vocab_size, spec.checkpoint)
        self.token_lengths: tuple[int, ...] = ()
        """Captured prompt lengths, rising; empty where nothing is captured."""

    @property
    def device(self) -> torch.device:
        return self.model.state_proj.weight.device

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return batch, self.spec.horizon, self.spec.model_action_dim

    def prepare(self, observations: Sequence[Observation]) -> SmolVlaInputs:
        pictures = self.place(upload(self.stage_images(observations), self.device))
        return self.join(pictures, upload(self.stage_rest(observations), self.device))

    def stage_images(self, observations: Sequence[Observation]) -> Images:
        present = self._present(observations)
        pictures: dict[str, list[tuple[tuple[int, int], np.ndarray]]] = {}
        for row, (observation, keys) in enumerate(zip(observations, present, strict=True)):
            for slot, key in enumerate(keys):
                image = np.asarray(observation.images[key])
                self._check_side(key, image)
                # one group for all cameras of one normalisation
                name = "" if self._normalise[key].identity else key
                pictures.setdefault(name, []).append(((slot, row), image))
        groups = tuple((key, Grouped.of(group)) for key, group in pictures.items())
        return Images(groups, max(map(self._slots, present)), len(observations))

    def _slots(self, present: Sequence[str]) -> int:
        """Image slots of a request with these cameras: LeRobot fills up with empty ones."""
        marked = self.model.config.image_marks is not None
        return len(present) + (self.model.config.empty_cameras if marked else 0)

    def stage_rest(self, observations: Sequence[Observation]) -> Rest:
        present = self._present(observations)
        masks = np.zeros((max(map(self._slots, present)), len(observations)), bool)
        marks = None if self.model.config.image_marks is None else masks.copy()
        for row, keys in enumerate(present):
            masks[: len(keys), row] = True
            if marks is not None:
                marks[: self._slots(keys), row] = True
        tokens, token_mask = tokenize.pad(
            rows := [self.tokens(o.instruction) for o in observations],
            value=0,
            left=False,
            length=self._bucket(max(map(len, rows))),
        )
        state = np.zeros((len(observations), self.model.config.max_state_dim), np.float32)
        values = self.vectors.normalised(observations, "STATE")
        if values is not None:
            state[:, : values.shape[1]] = values
        return Rest(masks, marks, tokens, token_mask, state)

    def place(
        self, images: Images, operators: type[Operators] | Operators = Operators
    ) -> tuple[torch.Tensor, ...]:
        """-> one float32 [B, 3, S, S] a slot, in [-1, 1], as far as whole patches go; -1 where a
        request has no such image."""
        side = self.model.config.image_side
        squares: dict[tuple[int, int], torch.Tensor] = {}
        for key, group in images.pictures:
            for pixels, places in zip(group.stacks, group.places, strict=True):
                squares |= zip(places, self._square(key, pixels, operators), strict=True)
        for place in product(range(images.slots), range(images.batch)):
            if place not in squares:
                squares[place] = torch.full((3, side, side), -1.0, device=self.device)
        seen = self.model.config.patches_side * self.model.config.vlm.vision.patch_size
        slots = []
        for slot in range(images.slots):
            rows = [squares[slot, row] for row in range(images.batch)]
            slots.append(torch.stack(rows) if len(rows) > 1 else rows[0][None])
        return tuple(picture[..., :seen, :seen] for picture in slots)

    def join(self, pictures: tuple[torch.Tensor, ...], rest: Rest) -> SmolVlaInputs:
        return SmolVlaInputs(
            pictures,
            tuple(rest.image_masks),
            rest.tokens,
            rest.token_mask,
            rest.state,
            () if rest.mark_masks is None else tuple(rest.mark_masks),
        )

    def _present(self, observations: Sequence[Observation]) -> list[list[str]]:
        present = [[k for k in self.spec.cameras if k in o.images] for o in observations]
        if not all(present):
            raise PolicyError(
                f"an observation has none of the cameras {', '.join(self.spec.cameras)}; at least "
                "one is needed"
            )
        return present

    def _check_side(self, key: str, image: np.ndarray) -> None:
        given = self.model.config.resize_imgs_with_padding
        side = self.model.config.image_side
        if given is None and image.shape[:2] != (side, side):
            raise PolicyError(
                f"camera {key!r}: expected {side} x {side} pixels (resize_imgs_with_padding is "
                f"{given}), found {image.shape[0]} x {image.shape[1]}"
            )
        check_fits(key, image, side, side)

    def _square(
        self, key: str, pixels: torch.Tensor, operators: type[Operators] | Operators
    ) -> torch.Tensor:
        """uint8 [N, H, W, 3] -> float32 [N, 3, S, S] in [-1, 1]. key: of the camera whose
        normalisation is not the identity, else empty."""
        side = self.model.config.image_side
        if not key:
            return operators.letterbox(pixels, side, side, centred=False)
        x = self._normalise[key](planes(pixels))
        if self.model.config.resize_imgs_with_padding is not None:
            x = fit_left_top(x, side, side)
        return x * 2.0 - 1.0

    def tokens(self, instruction: str) -> list[int]:
        """Token ids of the prompt, cut to the model's limit."""
        prompt = instruction if instruction.endswith("\n") else instruction + "\n"
        return self._limit.encode(self.tokenizer, ((prompt, True),))

    def _bucket(self, length: int) -> int:
        lengths = self.token_lengths or self.graph_lengths(())
        return next((n for n in lengths if n >= length), length)

    def graph_lengths(self, observations: Sequence[Observation]) -> tuple[int, ...]:
        """Every prompt length that occurs, whatever the observations."""
        most = self._limit.most
        return (*range(_TOKEN_BUCKET, most, _TOKEN_BUCKET), most)

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        return self.vectors.decode(actions, observations)

    def encode(self, actions: np.ndarray, observation: Observation) -> np.ndarray:
        return self.vectors.encode(actions, observation, self.spec.model_action_dim)


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> SmolVlaAdapter:
    """Raises PolicyError naming what does not fit; also where an embodiment is asked for."""
    refuse_embodiment(checkpoint.root, "smolvla", embodiment)
    layout = read_layout(checkpoint.root, checkpoint.config)
    vectors = Vectors(layout)
    with checkpoint.sized_by("vlm_model_name"):
        config = _config(checkpoint, layout, vectors)
    step = layout.preprocessor.find(lerobot_steps.TOKENIZER)
    words = step.config if step else {}
    tokenizer = tokenize.load(checkpoint, words.get("tokenizer_name") or config.vlm_model_name)
    config = replace(config, image_marks=_marks(checkpoint, config, tokenizer))
    with shapes.only():
        model = SmolVlaModel(config)
    with checkpoint.sized_by("vlm_model_name"):
        checkpoint.fill(
            model,
            device=device,
            dtype=lambda name: torch.float32 if name.startswith(FLOAT32) else dtype,
            rename=rename,
            ignore=(*UNUSED, LEGACY_STATISTICS),
            tied=TIED,
        )
    model.vision_model.embeddings.arrange(config.patches_side)
    cameras = layout.real_cameras
    side = config.image_side
    spec = PolicySpec(
        family="smolvla",
        checkpoint=str(checkpoint.root),
        cameras=cameras,
        optional_cameras=cameras,
        state=layout.state_specs(),
        action=layout.action_specs(),
        horizon=config.chunk_size,
        denoising_steps=config.num_steps,
        model_action_dim=config.max_action_dim,
        guidance_methods=(guidance.RTC_IDENTITY, guidance.RTC_VJP, guidance.SEAM),
        max_prompt_tokens=lerobot_steps.prompt_limit(
            words, config.tokenizer_max_length, layout.preprocessor.file
        ),
        image_size=(side, side),
        camera_sizes={}
        if config.resize_imgs_with_padding
        else dict.fromkeys(cameras, (side, side)),
    )
    return SmolVlaAdapter(spec, model, layout, vectors, tokenizer)


def _marks(
    checkpoint: Checkpoint, config: SmolVlaConfig, tokenizer: Tokenizer
) -> tuple[int, int] | None:
    """Token ids of ``SmolVlaConfig.image_marks``."""
    if not config.add_image_special_tokens:
        return None
    found = [tokenizer.id(token) for token in _MARKS]
    for token, number in zip(_MARKS, found, strict=True):
        if number is None or number >= config.vlm.text.vocab_size:
            raise PolicyError(
                f"{checkpoint.root / CONFIG}: add_image_special_tokens is true: expected the "
                f"tokenizer to have {token!r} below the model's {config.vlm.text.vocab_size} "
                f"tokens, found {number}"
            )
    fake, whole = (number or 0 for number in found)
    return fake, whole


def _config(checkpoint: Checkpoint, layout: Layout, vectors: Vectors) -> SmolVlaConfig:
    architecture = "architecture.json"
    config = SmolVlaConfig.parse(
        checkpoint.config,
        checkpoint.json(architecture) if checkpoint.has(architecture) else None,
        str(checkpoint.root),
    )
    file = checkpoint.root / CONFIG
    if vectors.dim("ENV"):
        raise PolicyError(f"{file}: input_features has an ENV feature, SmolVLA takes none")
    for name, found, most in (
        ("observation.state", vectors.dim("STATE"), config.max_state_dim),
        ("action", vectors.action_dim, config.max_action_dim),
    ):
        if found > most:
            raise PolicyError(f"{file}: {name} has {found} values, the model takes {most}")
    if not layout.cameras:
        raise PolicyError(f"{file}: input_features has no camera")
    # The vocabulary is the weights' business: fine-tuned tokenizers add tokens.
    vocabulary = next(
        (checkpoint.shapes[k][0] for k in (_EMBEDDING, *TIED.values()) if k in checkpoint.shapes),
        config.vlm.text.vocab_size,
    )
    text = replace(config.vlm.text, vocab_size=vocabulary)
    return replace(config, vlm=replace(config.vlm, text=text))
