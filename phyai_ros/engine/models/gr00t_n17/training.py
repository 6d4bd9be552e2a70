# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What training a GR00T N1.7 needs: fresh weights, the loss, and a checkpoint to load again.

config = GrootConfig.parse(config_json, "config.json", architecture_json)
model = build(config, device, seed=0)
inputs = inputs_of(...)                              # or adapter.prepare(observations)
loss = flow_loss(model, inputs, actions, mask, generator)
save(root, model, files)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from phyai_ros.engine import shapes
from phyai_ros.engine.models.gr00t_n17.category import CategoryLinear
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.model import GrootModel, Inputs
from phyai_ros.engine.models.gr00t_n17.text import _RmsNorm

_STD = 0.02


def build(
    config: GrootConfig,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    seed: int = 0,
) -> GrootModel:
    """A model with random weights of the references' own distributions, trainable."""
    with shapes.only():
        model = GrootModel(config)
    model = model.to_empty(device=device).to(dtype)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            _initialise(module, generator)
    model.requires_grad_(True)
    return model.train()


def _initialise(module: nn.Module, generator: torch.Generator) -> None:
    if isinstance(module, nn.Linear | nn.Conv3d):
        fan_in = module.weight[0].numel()
        bound = 1.0 / math.sqrt(fan_in)
        module.weight.uniform_(-bound * math.sqrt(3), bound * math.sqrt(3), generator=generator)
        if module.bias is not None:
            module.bias.zero_()
    elif isinstance(module, nn.Embedding):
        module.weight.normal_(0.0, _STD, generator=generator)
    elif isinstance(module, nn.LayerNorm):
        module.weight.fill_(1.0)
        module.bias.zero_()
    elif isinstance(module, _RmsNorm):
        module.weight.fill_(1.0)
    elif isinstance(module, CategoryLinear):
        module.W.normal_(0.0, _STD, generator=generator)
        module.b.zero_()


def flow_loss(
    model: GrootModel,
    inputs: Inputs,
    actions: torch.Tensor,
    mask: torch.Tensor,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """The reference's flow-matching loss, a scalar.

    actions [B, horizon, max_action_dim], normalised and zero padded. mask, its shape: 1 where an
    action is real. x_t = (1 - t) noise + t a, target a - noise, t = noise_s (1 - Beta(alpha,
    beta)) in buckets; the mean of the squared error over the mask. generator: on actions' device.
    """
    config, device = model.config, actions.device
    noise = torch.randn(actions.shape, device=device, generator=generator)
    t = config.noise_s * (1 - _beta(len(actions), *config.noise_beta, device, generator))
    x = (1 - t[:, None, None]) * noise + t[:, None, None] * actions
    prefix = model.prefix(inputs, model.vision(inputs))
    found = model.velocity(x, (t * config.buckets).long(), prefix)
    error = (found - (actions - noise)).square() * mask
    return error.sum() / (mask.sum() + 1e-6)


def _beta(
    count: int, alpha: float, beta: float, device: torch.device, generator: torch.Generator | None
) -> torch.Tensor:
    """Beta(alpha, beta) samples from a generator, which torch's own sampler does not take."""
    a = torch._standard_gamma(torch.full((count,), alpha, device=device), generator=generator)
    b = torch._standard_gamma(torch.full((count,), beta, device=device), generator=generator)
    return a / (a + b)


def save(
    root: Path,
    model: GrootModel,
    files: Mapping[str, Mapping[str, Any] | str],
    dtype: torch.dtype = torch.bfloat16,
    shard_bytes: int = 5_000_000_000,
) -> None:
    """Write an Isaac-GR00T checkpoint: the weights in safetensors (sharded where larger than
    ``shard_bytes``), and ``files`` (config.json, architecture.json, processor_config.json,
    statistics.json, embodiment_id.json, tokenizer.json, ...) as JSON objects or text."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        (root / name).write_text(text)
    shards: list[dict[str, torch.Tensor]] = [{}]
    size = 0
    for key, value in model.state_dict().items():
        tensor = value.detach().to("cpu", dtype).contiguous()
        size += tensor.numel() * tensor.element_size()
        if shards[-1] and size > shard_bytes:
            shards.append({})
            size = tensor.numel() * tensor.element_size()
        shards[-1][key] = tensor
    if len(shards) == 1:
        save_file(shards[0], root / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, root / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (root / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
