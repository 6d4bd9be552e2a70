# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT from a LeRobot checkpoint: observations -> normalised images and vectors -> actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.layers.resnet import batch_norm_tensors
from phyai_ros.engine.models.act.config import ActConfig
from phyai_ros.engine.models.act.model import ActInputs, ActModel
from phyai_ros.engine.models.lerobot import CONFIG, Layout, read_layout, refuse_embodiment
from phyai_ros.engine.models.lerobot_images import ImageNormaliser, check_size, upload
from phyai_ros.engine.models.lerobot_legacy import KEYS as LEGACY_STATISTICS
from phyai_ros.engine.models.lerobot_vectors import Vectors
from phyai_ros.engine.types import Observation, PolicySpec

_PREFIX = "model."
_UNUSED = (r"model\.vae_encoder.*", LEGACY_STATISTICS)  # the first for training only
_STEM = "model.backbone.conv1.weight"


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
        return ActInputs(
            tuple(self._images(observations, key) for key in self.spec.cameras),
            self._vector(observations, "STATE"),
            self._vector(observations, "ENV"),
            len(observations),
        )

    def _images(self, observations: Sequence[Observation], key: str) -> torch.Tensor:
        images = [o.images[key] for o in observations]
        for image in images:
            check_size(key, image, self.spec.camera_sizes[key])
        return self._normalise[key](upload(images, self.device)).to(self.dtype)

    def _vector(self, observations: Sequence[Observation], kind: str) -> torch.Tensor | None:
        values = self.vectors.normalised(observations, kind)
        if values is None:
            return None
        return torch.from_numpy(values).to(self.device, self.dtype)

    def decode(
        self, actions: torch.Tensor, observations: Sequence[Observation]
    ) -> list[np.ndarray]:
        return self.vectors.decode(actions, observations)


def load(
    checkpoint: Checkpoint, *, embodiment: str | None, device: torch.device, dtype: torch.dtype
) -> ActAdapter:
    """Raises PolicyError naming what does not fit; also where an embodiment is asked for."""
    refuse_embodiment(checkpoint.root, "act", embodiment)
    layout = read_layout(checkpoint.root, checkpoint.config)
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
    with torch.device("meta"):
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
        camera_sizes=layout.camera_sizes,
        ignores=("instruction",),
    )
    return ActAdapter(spec, model, layout, vectors, dtype)
