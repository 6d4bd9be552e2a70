# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Models of the published sizes with random weights, and inputs of the published shapes."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from phyai_ros.engine.checkpoint import Checkpoint
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.layout import from_ids
from phyai_ros.engine.models.gr00t_n17.model import GrootModel
from phyai_ros.engine.models.gr00t_n17.model import Inputs as GrootInputs
from phyai_ros.engine.models.paligemma import lerobot
from phyai_ros.engine.models.paligemma.adapter import FlowAdapter
from phyai_ros.engine.models.paligemma.config import GEMMA_VARIANTS, FlowConfig, SiglipConfig
from phyai_ros.engine.models.paligemma.family import storage_dtype
from phyai_ros.engine.models.paligemma.flow import Inputs as FlowInputs
from phyai_ros.engine.models.pi0.model import Pi0
from phyai_ros.engine.models.pi05.adapter import FAMILY
from phyai_ros.engine.models.pi05.model import Pi05
from phyai_ros.engine.models.smolvla.backbone import RmsNorm
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig
from phyai_ros.engine.models.smolvla.model import FLOAT32, SmolVlaInputs, SmolVlaModel
from phyai_ros.engine.quantize import into_fp8
from phyai_ros.engine.types import Observation, PolicySpec


@dataclass
class SyntheticAdapter:
    """An adapter whose inputs are on the device already: what is timed is the model alone."""

    spec: PolicySpec
    model: Any
    solver: str
    inputs: Any
    shape: tuple[int, int]

    def prepare(self, observations: Sequence[Observation]) -> Any:
        return self.inputs

    def stage_images(self, observations: Sequence[Observation]) -> tuple[()]:
        return ()

    stage_rest = stage_images

    def place(self, images: tuple[()], operators: Any = None) -> Any:
        return self.inputs

    def join(self, pictures: Any, rest: tuple[()]) -> Any:
        return pictures

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        return (batch, *self.shape)

    def decode(self, actions: np.ndarray, observations: Sequence[Observation]) -> list[np.ndarray]:
        return list(actions.astype(np.float64))


@lru_cache(maxsize=1)
def flow_model(name: str, device: torch.device, dtype: torch.dtype) -> Any:
    return _fill(
        Pi05 if name == "pi05" else Pi0, published(), device, lambda n: storage_dtype(n, dtype)
    )


def published() -> FlowConfig:
    return FlowConfig(SiglipConfig(), GEMMA_VARIANTS["gemma_2b"], GEMMA_VARIANTS["gemma_300m"])


def flow(name: str, device: torch.device, dtype: torch.dtype, tokens: int, batch: int = 1) -> Any:
    """pi0 or pi05: three views of 224 x 224, ``tokens`` words, 50 x 32 actions, ten steps."""
    config = published()
    spec = _spec(name, config.horizon, config.action_width, 10)
    shape = (config.horizon, config.action_width)
    inputs = flow_inputs(device, tokens, batch)
    model = flow_model(name, device, dtype)
    return SyntheticAdapter(spec, model, "flow_backward", inputs, shape)


def request(
    like: Path, folder: Path, device: torch.device, dtype: torch.dtype, cameras: int
) -> FlowAdapter:
    """pi05 behind a LeRobot checkpoint's own preprocessing: ``like`` is the checkpoint's folder,
    whose weights are not read and whose sizes are set to the published ones in ``folder``, with as
    many cameras as asked for."""
    sidecars(like, folder)
    config = folder / "config.json"
    content = json.loads(config.read_text())
    features = content["input_features"]
    there = [k for k, v in features.items() if v["type"] == "VISUAL"]
    for i in range(len(there), cameras):
        features[f"observation.images.camera{i}"] = features[there[0]]
    config.write_text(json.dumps(content))
    shutil.copy(like / "model.safetensors", folder)  # unread, but a checkpoint has one
    _, spec, transforms = lerobot.read(FAMILY, Checkpoint(folder))
    spec = replace(spec, guidance_methods=("rtc_identity",))
    return FlowAdapter(spec, flow_model("pi05", device, dtype), transforms)


def sidecars(like: Path, folder: Path) -> None:
    """What lies beside the weights of the LeRobot pi05 checkpoint ``like``, at published sizes."""
    for file in like.iterdir():
        if file.name not in ("architecture.json", "model.safetensors") and file.is_file():
            shutil.copy(file, folder)
    sizes = {
        "chunk_size": 50, "n_action_steps": 50, "max_state_dim": 32, "max_action_dim": 32,
        "image_resolution": [224, 224], "tokenizer_max_length": 200, "num_inference_steps": 10,
    }  # fmt: skip
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | sizes))
    steps = folder / "policy_preprocessor.json"
    content = json.loads(steps.read_text())
    for step in content["steps"]:
        if step.get("registry_name") == "tokenizer_processor":
            step["config"]["max_length"] = 200
    steps.write_text(json.dumps(content))


def flow_inputs(device: torch.device, tokens: int, batch: int) -> FlowInputs:
    generator = torch.Generator(device).manual_seed(1)
    images = torch.rand(batch, 3, 3, 224, 224, device=device, generator=generator) * 2 - 1
    words = torch.randint(0, 257000, (batch, tokens), device=device, generator=generator)
    return FlowInputs(
        images,
        torch.ones(batch, 3, dtype=torch.bool, device=device),
        words,
        torch.ones(batch, tokens, dtype=torch.bool, device=device),
        torch.randn(batch, 32, device=device, generator=generator),
    )


def groot(
    device: torch.device,
    dtype: torch.dtype,
    words: int = 20,
    batch: int = 1,
    head: Mapping[str, Any] | None = None,
) -> Any:
    """GR00T N1.7: two views of 256 x 256, ``words`` text tokens, 40 x 132 actions, four steps.
    head: keys of config.json that differ from the published ones."""
    config = GrootConfig.parse(head or {}, "published")
    model = _fill(GrootModel, config, device, lambda n: dtype)
    patch, merge = config.vision.patch, config.vision.merge
    side = 256 // patch
    count = side * side // merge**2
    generator = torch.Generator().manual_seed(1)
    row = []
    for _ in range(2):
        row += [config.vision_start_id, *[config.image_token_id] * count, config.vision_end_id]
    row += torch.randint(100, 100000, (words,), generator=generator).tolist()
    length = -(-len(row) // 16) * 16
    ids = np.full((batch, length), 0, np.int64)
    ids[:, length - len(row) :] = row
    real = np.zeros((batch, length), bool)
    real[:, length - len(row) :] = True
    grids = [(side, side)] * 2 * batch
    layout = from_ids(
        ids, real, grids, image_token=config.image_token_id, merge=merge, device=device
    )
    values = config.vision.patch_values
    inputs = GrootInputs(
        replace(layout, padded=True),  # as every captured request is
        (torch.rand(len(grids) * side * side, values, generator=generator) * 2 - 1).to(device),
        torch.randn(batch, 1, config.max_state_dim, generator=generator).to(device),
        (3,) * batch,
    )
    spec = _spec("gr00t_n17", config.horizon, config.max_action_dim, config.steps)
    shape = (config.horizon, config.max_action_dim)
    return SyntheticAdapter(spec, model, "flow_forward", inputs, shape)


def smolvla(device: torch.device, dtype: torch.dtype, words: int = 48, batch: int = 1) -> Any:
    """SmolVLA: three cameras of 512 x 512, ``words`` tokens, 50 x 32 actions, ten steps."""
    config = SmolVlaConfig.parse({"type": "smolvla"}, None, "published")
    model = _fill(
        SmolVlaModel, config, device, lambda n: torch.float32 if n.startswith(FLOAT32) else dtype
    )
    generator = torch.Generator(device).manual_seed(1)
    side = config.vlm.vision.image_size
    options: Any = {"device": device, "generator": generator}
    inputs = SmolVlaInputs(
        tuple(torch.rand(batch, 3, side, side, **options) * 2 - 1 for _ in range(3)),
        tuple(torch.ones(batch, dtype=torch.bool, device=device) for _ in range(3)),
        torch.randint(0, 49000, (batch, words), **options),
        torch.ones(batch, words, dtype=torch.bool, device=device),
        torch.randn(batch, config.max_state_dim, **options),
    )
    spec = _spec("smolvla", config.chunk_size, config.max_action_dim, config.num_steps)
    shape = (config.chunk_size, config.max_action_dim)
    return SyntheticAdapter(spec, model, "flow_backward", inputs, shape)


def quantised(adapter: SyntheticAdapter, device: torch.device) -> SyntheticAdapter:
    """The same in FP8, in place: the model is not handed out again."""
    into_fp8(adapter.model, adapter.spec.family, device)
    flow_model.cache_clear()
    return adapter


def _spec(family: str, horizon: int, width: int, steps: int) -> PolicySpec:
    return PolicySpec(
        family=family, checkpoint="synthetic", cameras=("a",), optional_cameras=(), state=(),
        action=(), horizon=horizon, denoising_steps=steps, model_action_dim=width,
        guidance_methods=("rtc_identity",),
    )  # fmt: skip


def _fill(
    model: Callable[[Any], nn.Module],
    config: Any,
    device: torch.device,
    dtype: Callable[[str], torch.dtype],
) -> Any:
    with torch.device("meta"):
        made = model(config)
    generator = torch.Generator(device).manual_seed(0)
    for name, old in list(made.named_parameters()):
        value = torch.empty(old.shape, device=device, dtype=dtype(name))
        draw(made, name, value, generator)
        owner_name, _, leaf = name.rpartition(".")
        setattr(made.get_submodule(owner_name), leaf, nn.Parameter(value, requires_grad=False))
    assert not any(p.is_meta for p in made.parameters())
    return made.eval()


def draw(model: nn.Module, name: str, value: torch.Tensor, generator: torch.Generator) -> None:
    """Random weights in place, for parameter ``name`` or some rows of it, that keep every
    activation near one: norms at one (Gemma: zero), biases and modulation small."""
    owner_name, _, leaf = name.rpartition(".")
    owner = model.get_submodule(owner_name)
    with torch.no_grad():
        if isinstance(owner, nn.LayerNorm) and leaf == "weight":
            value.fill_(1.0)
        elif value.ndim == 1:
            ones = isinstance(owner, RmsNorm) or type(owner).__name__ == "_RmsNorm"
            value.normal_(1.0 if ones else 0.0, 0.02, generator=generator)
        else:
            fan_in = value.shape[1] if type(owner).__name__ == "CategoryLinear" else None
            fan_in = fan_in or value[0].numel()
            std = 0.02 if isinstance(owner, nn.Embedding) or "norm" in name else fan_in**-0.5
            value.normal_(0.0, std, generator=generator)


def parameters(model: nn.Module) -> int:
    return sum(math.prod(p.shape) for p in model.parameters())
