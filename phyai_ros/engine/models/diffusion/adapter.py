# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Diffusion Policy from a LeRobot checkpoint.

The policy looks at the last ``n_obs_steps`` moments. They come with each request, in
``Observation.history``; nothing is kept here, so a request means the same whoever asked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import shapes
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.layers.resnet import batch_norm_tensors
from phyai_ros.engine.models.diffusion.config import DiffusionConfig
from phyai_ros.engine.models.diffusion.model import DiffusionInputs, DiffusionModel, rename
from phyai_ros.engine.models.lerobot import CONFIG, Layout, read_layout, refuse_embodiment
from phyai_ros.engine.models.lerobot_images import (
    ImageNormaliser,
    centre_crop,
    check_size,
    planes,
    resize,
)
from phyai_ros.engine.models.lerobot_legacy import KEYS as LEGACY_STATISTICS
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.noise_schedule import Ddim, Ddpm
from phyai_ros.engine.staging import Stack, upload
from phyai_ros.engine.types import Observation, PolicyError, PolicySpec

_UNUSED = (r".*\.num_batches_tracked", LEGACY_STATISTICS)


@dataclass(frozen=True)
class Rest:
    """``DiffusionInputs`` without the images: moments of all requests, one after another."""

    state: Any
    environment: Any


class DiffusionAdapter:
    """actions are rows n_obs_steps - 1 and on of what the network denoises, n_action_steps of
    them: the earlier rows are in the past."""

    def __init__(
        self,
        spec: PolicySpec,
        model: DiffusionModel,
        layout: Layout,
        vectors: Vectors,
        dtype: torch.dtype,
    ):
        self.spec = spec
        self.model = model
        self.config = model.config
        self.vectors = vectors
        self.dtype = dtype
        schedule = self.config.schedule
        self.solver: Ddim | Ddpm = (
            Ddim(schedule) if self.config.noise_scheduler_type == "DDIM" else Ddpm(schedule)
        )
        self._normalise = {
            key: ImageNormaliser(layout.input_normalisation(key), self.device)
            for key in spec.cameras
        }

    @property
    def device(self) -> torch.device:
        return self.model.unet.step_encoder.widen.weight.device

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """DDIM: the start. DDPM: the start and one draw a step but the last."""
        rows = self.config.horizon, self.spec.model_action_dim
        if isinstance(self.solver, Ddpm):
            return batch, self.spec.denoising_steps, *rows
        return batch, *rows

    def prepare(self, observations: Sequence[Observation]) -> DiffusionInputs:
        pictures = self.place(upload(self.stage_images(observations), self.device))
        return self.join(pictures, upload(self.stage_rest(observations), self.device))

    def stage_images(self, observations: Sequence[Observation]) -> tuple[Stack, ...]:
        """One stack of camera bytes a camera, moments of all requests one after another."""
        moments = [m for o in observations for m in self.moments(o)]
        return tuple(self._images(moments, key) for key in self.spec.cameras)

    def stage_rest(self, observations: Sequence[Observation]) -> Rest:
        moments = [m for o in observations for m in self.moments(o)]
        return Rest(*(self.vectors.normalised(moments, kind) for kind in ("STATE", "ENV")))

    def place(
        self, images: Sequence[torch.Tensor], operators: object = None
    ) -> torch.Tensor | None:
        """operators: not looked at; resizing is torch's."""
        return self._seen(images)

    def join(self, pictures: torch.Tensor | None, rest: Rest) -> DiffusionInputs:
        return DiffusionInputs(pictures, self._vector(rest.state), self._vector(rest.environment))

    def moments(self, observation: Observation) -> list[Observation]:
        """The ``n_obs_steps`` moments of a request, oldest first; where the history is shorter,
        its oldest moment is repeated."""
        earlier = list(observation.history)[-self.spec.history :] if self.spec.history else []
        for moment in earlier:
            self._check_moment(moment)
        present = [*earlier, observation]
        return [present[0]] * (self.config.n_obs_steps - len(present)) + present

    def _check_moment(self, moment: Observation) -> None:
        missing = [key for key in self.spec.cameras if key not in moment.images]
        if missing:
            raise PolicyError(
                f"history: an earlier observation lacks camera {missing[0]!r}; it has "
                f"{', '.join(moment.images) or 'none'}"
            )
        state = np.asarray(moment.state)
        if state.shape != (self.spec.state_dim,) or not np.isfinite(state).all():
            raise PolicyError(
                f"history: an earlier state must be {self.spec.state_dim} finite values, "
                f"found {state.tolist()}"
            )

    def _images(self, moments: Sequence[Observation], key: str) -> Stack:
        images = [np.asarray(m.images[key]) for m in moments]
        for image in images:
            check_size(key, image, self.spec.camera_sizes[key])
        return Stack(images)

    def _seen(self, stacks: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """uint8 [moments, H, W, 3] of each camera -> what the encoder sees."""
        if not stacks:
            return None
        views = [
            self._normalise[key](planes(pixels))
            for key, pixels in zip(self.spec.cameras, stacks, strict=True)
        ]
        x = self.transform(torch.stack(views, dim=1)).to(self.dtype)
        return x.unflatten(0, (-1, self.config.n_obs_steps))

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        """Normalised [..., 3, H, W] -> what the encoder sees: resized, then cropped."""
        if self.config.resize_shape is not None:
            images = resize(images, *self.config.resize_shape)
        if self.config.crop is not None:
            images = centre_crop(images, *self.config.crop)
        return images

    def _vector(self, values: torch.Tensor | None) -> torch.Tensor | None:
        if values is None:
            return None
        return values.to(self.dtype).unflatten(0, (-1, self.config.n_obs_steps))

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        first = self.config.n_obs_steps - 1
        return self.vectors.decode(
            actions[:, first : first + self.config.n_action_steps], observations
        )


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> DiffusionAdapter:
    """Raises PolicyError naming what does not fit; also where an embodiment is asked for."""
    refuse_embodiment(checkpoint.root, "diffusion", embodiment)
    layout = read_layout(checkpoint.root, checkpoint.config)
    file = str(checkpoint.root / CONFIG)
    vectors = Vectors(layout)
    config = DiffusionConfig.parse(
        checkpoint.config,
        file,
        cameras=layout.cameras,
        image_shape=_common_size(layout, file),
        state_dim=vectors.dim("STATE"),
        env_dim=vectors.dim("ENV"),
        action_dim=vectors.action_dim,
        backbone_width=_backbone_width(checkpoint),
    )
    with shapes.only():
        model = DiffusionModel(config)
    whole = batch_norm_tensors(model)
    checkpoint.fill(
        model,
        device=device,
        # Pixel coordinates need more than bfloat16's eight bits, too.
        dtype=lambda name: torch.float32 if name in whole or "pos_grid" in name else dtype,
        rename=rename,
        ignore=_UNUSED,
    )
    spec = PolicySpec(
        family="diffusion",
        checkpoint=str(checkpoint.root),
        cameras=layout.cameras,
        optional_cameras=(),
        state=layout.state_specs(),
        action=layout.action_specs(),
        horizon=config.n_action_steps,
        denoising_steps=config.schedule.steps,
        model_action_dim=config.action_dim,
        camera_sizes=layout.camera_sizes,
        ignores=("instruction",),
        history=config.n_obs_steps - 1,
    )
    return DiffusionAdapter(spec, model, layout, vectors, dtype)


def _common_size(layout: Layout, file: str) -> tuple[int, int] | None:
    sizes = set(layout.camera_sizes.values())
    if len(sizes) > 1:
        raise PolicyError(
            f"{file}: all cameras need images of one size, found {dict(layout.camera_sizes)}"
        )
    return sizes.pop() if sizes else None


def _backbone_width(checkpoint: Checkpoint) -> int:
    """Channels of the ResNet's first convolution; 64 where there is no camera."""
    for key, shape in checkpoint.shapes.items():
        if key.startswith("diffusion.rgb_encoder.") and key.endswith("backbone.0.weight"):
            return shape[0]
    return 64
