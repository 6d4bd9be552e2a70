# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The engine's front door: ``load_policy(...).infer(observation)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np
import torch

from phyai_ros.engine import guidance as guidance_
from phyai_ros.engine import hub, registry, solver
from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.frames import Frames
from phyai_ros.engine.models.base import Adapter, GuidableAdapter
from phyai_ros.engine.quantize import into_fp8
from phyai_ros.engine.runner import Runner
from phyai_ros.engine.types import ActionChunk, Guidance, Observation, PolicyError, PolicySpec
from phyai_ros.engine.validate import check_guidance, check_observation

FP8 = "fp8"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, FP8: torch.bfloat16}
"""Precision -> the dtype that weights are read in; of FP8, before they are quantised."""
FRAMES = 12
"""Of each camera: an aligner keeps 8 images, a request under way looks at one, one just comes."""
_HOST = torch.device("cpu")
Noise = np.ndarray | torch.Tensor
"""float32 of ``Policy.noise_shape``; of a single request also without the batch axis."""


class Policy:
    """A loaded policy. Not thread-safe: one thread infers.

    Noise that a caller does not give is drawn on the host from a generator seeded at load, so that
    the same sequence of requests gives the same chunks on every run.
    """

    def __init__(
        self, adapter: Adapter, device: torch.device, seed: int = 0, selector: str = "auto"
    ):
        self.adapter = adapter
        self.device = device
        self.runner = Runner(adapter, device, selector)
        self.frames = Frames(pinned=device.type == "cuda")
        """Where to put images as they come, so that a request does not have to copy them."""
        self._generator = torch.Generator()
        self.seed(seed)

    @property
    def spec(self) -> PolicySpec:
        return self.adapter.spec

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """What ``infer_batch`` takes as noise: [batch, horizon, model_action_dim], the horizon
        being the network's own; a sampler that draws in every step has [batch, steps, ...]."""
        return tuple(self.adapter.noise_shape(batch))

    def seed(self, seed: int) -> None:
        """Start the noise sequence again."""
        self._generator.manual_seed(seed)

    def infer(
        self,
        observation: Observation,
        noise: Noise | None = None,
        guidance: Guidance | None = None,
    ) -> ActionChunk:
        """One observation -> one chunk. Raises PolicyError naming what does not fit."""
        return self.infer_batch([observation], noise, [guidance])[0]

    def infer_batch(
        self,
        observations: Sequence[Observation],
        noise: Noise | None = None,
        guidance: Sequence[Guidance | None] | None = None,
    ) -> list[ActionChunk]:
        """Independent requests in one pass; each chunk is the one its request would get alone.
        guidance: None, or an entry a request. Raises PolicyError naming what does not fit."""
        if not observations:
            return []
        asked = _Asked(self, observations, noise, guidance)
        special = self.runner.is_special(
            guidance_.RTC_VJP in asked.methods, guidance_.RTC_TRAINED in asked.methods
        )
        return self.runner.answer(observations, asked, special)

    def warm_up(
        self,
        image_sizes: Mapping[str, tuple[int, int] | None] | None = None,
        batches: Sequence[int] | None = (1,),
        absent: Collection[str] = (),
    ) -> None:
        """Infer on made-up observations, so that the first real one is not the slow one; on a CUDA
        device, capture every bucket. Does not touch the noise sequence. image_sizes: the cameras
        that will come and their (height, width), None where that is not known; default: all.
        batches: sizes that ``infer_batch`` will be asked for; None: 1, 2, 4 to 32, as far as the
        device has room. absent: cameras without which requests may come; every combination of
        them is captured. ``frames`` has room for images of these sizes afterwards."""
        spec = self.spec
        size = spec.image_size or (240, 320)
        given = dict.fromkeys(spec.cameras) if image_sizes is None else image_sizes
        sizes = {
            key: given.get(key) or spec.fitting_size(key, size)
            for key in spec.cameras
            if key in given or key not in spec.optional_cameras
        }
        images = {key: np.full((*s, 3), 127, np.uint8) for key, s in sizes.items()}
        state = np.concatenate([_middle(f.size, f.statistics) for f in spec.state] or [np.zeros(0)])
        observation = Observation(images, state, "warm up")
        noise = torch.zeros(self.adapter.noise_shape(1))
        for _ in range(2):
            self.infer(observation, noise)
        if self.runner.capture(observation, batches):
            for count in range(1, len(absent) + 1):
                for keys in combinations(sorted(absent), count):
                    left = {k: v for k, v in images.items() if k not in keys}
                    if left:
                        self.runner.capture(replace(observation, images=left), batches)
            each = FRAMES + 2 * spec.history
            for (height, width), cameras in Counter(sizes.values()).items():
                self.frames.reserve(height, width, each * cameras)
            framed = {key: self.frames.put(image) for key, image in images.items()}
            for seen in (images, framed):
                self.infer(replace(observation, images=seen), noise)

    def draw(self, batch: int) -> torch.Tensor:
        """Noise of the policy's own sequence."""
        return torch.randn(self.noise_shape(batch), generator=self._generator)


class _Asked:
    """One call of ``infer_batch``, for the runner to check and to ask for noise and guide."""

    def __init__(
        self,
        policy: Policy,
        observations: Sequence[Observation],
        noise: Noise | None,
        guidance: Sequence[Guidance | None] | None,
    ):
        self._policy, self._observations, self._noise = policy, observations, noise
        self._guided = guidance is not None
        self._wishes = () if guidance is None else tuple(guidance)
        self.methods = {wish.method for wish in self._wishes if wish is not None}
        self._made: tuple[torch.Tensor, solver.Guide | None] | None = None

    def check(self) -> None:
        spec, batch = self._policy.spec, len(self._observations)
        for observation in self._observations:
            check_observation(observation, spec)
        if self._guided and len(self._wishes) != batch:
            raise PolicyError(f"guidance: expected {batch} entries, found {len(self._wishes)}")
        for wish in self._wishes:
            if wish is not None:
                check_guidance(wish, spec)
        if self._noise is not None:
            self._noise = _given(self._noise, self._policy.noise_shape(batch))

    def rest(self) -> tuple[torch.Tensor, solver.Guide | None]:
        if self._made is None:
            guide = None
            if self.methods:
                adapter = cast(GuidableAdapter, self._policy.adapter)
                guide = guidance_.guide(self._wishes, self._observations, adapter, _HOST)
            given = self._noise
            if given is None:
                given = self._policy.draw(len(self._observations))
            self._made = cast(torch.Tensor, given), guide
        return self._made


def _given(noise: Noise, shape: tuple[int, ...]) -> torch.Tensor:
    given = torch.as_tensor(noise, dtype=torch.float32)
    if given.shape == shape[1:] and shape[0] == 1:
        given = given[None]
    if tuple(given.shape) != shape:
        raise PolicyError(f"noise: expected shape {list(shape)}, found {list(given.shape)}")
    if not torch.isfinite(given).all():
        raise PolicyError("noise: not finite")
    return given


def load_policy(
    checkpoint: str | Path,
    *,
    family: str | None = None,
    embodiment: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    seed: int = 0,
    selector: str = "auto",
) -> Policy:
    """Load a policy from a checkpoint directory, an embedded checkpoint's name or a hub id.

    family: a name or alias of ``registry.families()``; None reads it from the checkpoint.
    embodiment: the checkpoint's embodiment tag, where it has several. device: cpu, cuda, cuda:N.
    dtype: float32, bfloat16 or fp8 (``quantize``). revision: of a hub id. selector: "reference"
    forces plain torch.
    Raises PolicyError naming file, key, expected and found.
    """
    where = _device(device)
    if dtype not in DTYPES:
        raise PolicyError(f"dtype {dtype!r} is not supported; known: {', '.join(DTYPES)}")
    if family is not None:
        registry.resolve(family)  # refused before anything is downloaded
    opened = Checkpoint(hub.resolve(checkpoint, revision))
    found = registry.settle(opened, family)
    adapter = registry.build(
        found, opened, embodiment=embodiment, device=where, dtype=DTYPES[dtype]
    )
    if dtype == FP8:
        into_fp8(adapter.model, found, where)
    return Policy(adapter, where, seed, selector)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise PolicyError(f"device {name!r} is not one; known: cpu, cuda, cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise PolicyError(f"device {name!r} is not supported; known: cpu, cuda, cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise PolicyError(f"device {name!r}: torch sees {count} CUDA devices here; try cpu")
        # Convolutions use TF32 unless told not to: three decimal digits, where float32 is promised.
        torch.backends.cudnn.allow_tf32 = False
    return device


def _middle(size: int, statistics: Mapping[str, np.ndarray]) -> np.ndarray:
    mean = statistics.get("mean")
    if mean is None or np.shape(mean) != (size,) or not np.isfinite(mean).all():
        return np.zeros(size)  # the checkpoint may not normalise by it, so that nobody looked
    return np.asarray(mean, np.float64)
