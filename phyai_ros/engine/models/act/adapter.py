# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT from a LeRobot checkpoint: observations -> normalised images and vectors -> actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phyai_ros.engine import shapes
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.layers.resnet import batch_norm_tensors
from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.models.act.model import ActInputs, ActModel
from phyai_ros.engine.models.lerobot import CONFIG, Layout, read_layout, refuse_embodiment
from phyai_ros.engine.models.lerobot_crop import CropResize
from phyai_ros.engine.models.lerobot_images import ImageNormaliser, check_size, planes
from phyai_ros.engine.models.lerobot_legacy import KEYS as LEGACY_STATISTICS
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.staging import Stack, upload
from phyai_ros.engine.types import Observation, PolicySpec

_PREFIX = "model."
_UNUSED = (r"model\.vae_encoder.*", LEGACY_STATISTICS)  # the first for training only
_STEM = "model.backbone.conv1.weight"


@dataclass(frozen=True)
class Rest:
    """``ActInputs`` without the images."""

    state: Any
    environment: Any
    batch: int


class ActAdapter:
    """The chunk is one forward pass: there is no noise and nothing to guide."""

    solver = "single_pass"

    def __init__(
        self,
        spec: PolicySpec,
        model: ActModel,
        layout: Layout,
        vectors: Vectors,
        dtype: torch.dtype,
    ):
        self.spec = spec
        self.model = model
        self.vectors = vectors
        self.dtype = dtype
        self._fit = CropResize.of(layout)
        self._normalise = {
            key: ImageNormaliser(layout.input_normalisation(key), self.device)
            for key in spec.cameras
        }

    @property
    def device(self) -> torch.device:
        return self.model.action_head.weight.device

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return batch, self.spec.horizon, self.spec.model_action_dim

    def prepare(self, observations: Sequence[Observation]) -> ActInputs:
        pictures = self.place(upload(self.stage_images(observations), self.device))
        return self.join(pictures, upload(self.stage_rest(observations), self.device))

    def stage_images(self, observations: Sequence[Observation]) -> tuple[Stack, ...]:
        """One stack of camera bytes a camera."""
        return tuple(self._images(observations, key) for key in self.spec.cameras)

    def stage_rest(self, observations: Sequence[Observation]) -> Rest:
        state, environment = (
            self.vectors.normalised(observations, kind) for kind in ("STATE", "ENV")
        )
        return Rest(state, environment, len(observations))

    def place(
        self, images: Sequence[torch.Tensor], operators: object = None
    ) -> tuple[torch.Tensor, ...]:
        """operators: not looked at."""
        return tuple(
            self._normalise[key](self._fitted(key, planes(pixels))).to(self.dtype)
            for key, pixels in zip(self.spec.cameras, images, strict=True)
        )

    def join(self, pictures: tuple[torch.Tensor, ...], rest: Rest) -> ActInputs:
        state, environment = (
            None if vector is None else vector.to(self.dtype)
            for vector in (rest.state, rest.environment)
        )
        return ActInputs(pictures, state, environment, rest.batch)

    def _images(self, observations: Sequence[Observation], key: str) -> Stack:
        images = [np.asarray(o.images[key]) for o in observations]
        if self._fit is not None:
            self._fit.check(key, images)
        else:
            for image in images:
                check_size(key, image, self.spec.camera_sizes[key])
        return Stack(images)

    def _fitted(self, key: str, images: torch.Tensor) -> torch.Tensor:
        return images if self._fit is None else self._fit(key, images)

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        return self.vectors.decode(actions, observations)


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> ActAdapter:
    """Raises PolicyError naming what does not fit; also where an embodiment is asked for."""
    refuse_embodiment(checkpoint.root, "act", embodiment)
    layout = read_layout(checkpoint.root, checkpoint.config, (CropResize.STEP,))
    vectors = Vectors(layout)
    config = ActConfig.parse(
        checkpoint.config,
        str(checkpoint.root / CONFIG),
        cameras=layout.cameras,
        state_dim=vectors.dim("STATE"),
        env_dim=vectors.dim("ENV"),
        action_dim=vectors.action_dim,
        backbone_width=checkpoint.shapes.get(_STEM, (64,))[0],
    )
    fit = CropResize.of(layout)
    with shapes.only():
        model = ActModel(config)
    whole = batch_norm_tensors(model)
    checkpoint.fill(
        model,
        device=device,
        dtype=lambda name: torch.float32 if name in whole else dtype,
        rename=lambda key: key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else None,
        ignore=_UNUSED,
    )
    spec = PolicySpec(
        family="act",
        checkpoint=str(checkpoint.root),
        cameras=layout.cameras,
        optional_cameras=(),
        state=layout.state_specs(),
        action=layout.action_specs(),
        horizon=config.chunk_size,
        denoising_steps=1,
        model_action_dim=config.action_dim,
        camera_sizes={} if fit else layout.camera_sizes,
        least_sizes=fit.least_sizes if fit else {},
        ignores=("instruction",),
    )
    return ActAdapter(spec, model, layout, vectors, dtype)
