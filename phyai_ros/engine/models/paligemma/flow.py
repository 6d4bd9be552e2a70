# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A flow policy on PaliGemma: what pi0 (arXiv 2410.24164) and pi0.5 (arXiv 2504.16054) share.

Images and words form a bidirectional prefix, seen once by the language model. The action expert
denoises the chunk, layer by layer attending to the prefix's keys and values. Flow time runs from
1 (noise) to 0 (actions) and the velocity is noise - actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from phyai_ros.engine.models.paligemma.config import FlowConfig, GemmaConfig
from phyai_ros.engine.models.paligemma.gemma import (
    AdaptiveRmsNorm,
    GemmaBlock,
    GemmaStack,
    KeyValue,
    RmsNorm,
    Rope,
    rope,
)
from phyai_ros.engine.models.paligemma.siglip import Siglip
from phyai_ros.engine.quantize import Fp8Plan


@dataclass(frozen=True)
class Inputs:
    """One batch, on the model's device.

    images: float32 [B, cameras, 3, S, S] in [-1, 1]; an absent camera is all -1.
    image_mask: bool [B, cameras]. tokens: int64 [B, L]. token_mask: bool [B, L].
    state: float32 [B, state_width], normalised and zero padded (pi0 alone looks at it).
    """

    images: torch.Tensor
    image_mask: torch.Tensor
    tokens: torch.Tensor
    token_mask: torch.Tensor
    state: torch.Tensor


@dataclass(frozen=True)
class Prefix:
    """What the action expert needs of the observation.

    layers: keys and values of each layer. mask: bool [B, 1, 1, P + horizon], True where a key
    exists, the chunk's own keys last. positions: of the chunk's rows. committed: bool [B, horizon],
    rows that hold clean actions already, None where there are none.
    """

    layers: tuple[KeyValue, ...]
    mask: torch.Tensor
    positions: Rope
    committed: torch.Tensor | None = None


class Language(nn.Module):
    """The Gemma language model, as far as a prefix needs it."""

    def __init__(self, config: GemmaConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = GemmaStack(GemmaBlock(config) for _ in range(config.depth))
        self.norm = RmsNorm(config.width, config.eps)

    def words(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [B, L] -> embeddings, float32 [B, L, width], scaled as Gemma scales them."""
        embedding = self.embed(tokens).float()
        return embedding * math.sqrt(embedding.shape[-1])

    def forward(
        self, x: torch.Tensor, positions: Rope, mask: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[KeyValue, ...]]:
        """x [B, P, width] -> the last hidden state and every layer's keys and values."""
        cache = []
        for layer in self.layers:
            x, own = layer(x, positions, mask)
            cache.append(own)
        return self.norm(x)[0], tuple(cache)

    def keys_values(
        self, x: torch.Tensor, positions: Rope, mask: torch.Tensor
    ) -> tuple[KeyValue, ...]:
        """``forward``'s cache without what the last layer would do after its keys and values."""
        cache = []
        *layers, last = self.layers
        for layer in layers:
            x, own = layer(x, positions, mask)
            cache.append(own)
        return (*cache, last.keys_values(x, positions))


class Expert(nn.Module):
    """The action expert: a narrower Gemma whose layers read the prefix's layers."""

    def __init__(self, config: GemmaConfig, adaptive: bool):
        super().__init__()
        self.layers = GemmaStack(GemmaBlock(config, adaptive) for _ in range(config.depth))
        self.norm = (AdaptiveRmsNorm if adaptive else RmsNorm)(config.width, config.eps)

    @property
    def dtype(self) -> torch.dtype:
        """Of the products' inputs, keys and values among them."""
        return next(iter(self.layers)).dtype

    def forward(
        self, x: torch.Tensor, prefix: Prefix, modulation: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x [B, H, width] -> [B, H, width] after the final norm.

        modulation: [B or 1, H or 1, 2 * depth + 1, 3 * width], one a norm, in order.
        """
        norms = (None,) * (2 * len(self.layers) + 1) if modulation is None else modulation.unbind(2)
        for i, layer in enumerate(self.layers):
            pair = (norms[2 * i], norms[2 * i + 1])
            x, _ = layer(x, prefix.positions, prefix.mask, prefix.layers[i], pair)
        return self.norm(x, norms[-1])[0]


class FlowPolicy(nn.Module):
    """The parts of pi0 and pi0.5. A subclass says how time and state enter."""

    def __init__(self, config: FlowConfig, adaptive: bool):
        super().__init__()
        self.config = config
        width = config.expert.width
        self.image = Siglip(config.vision)
        self.projector = nn.Linear(config.vision.width, config.language.width)
        self.language = Language(config.language)
        self.expert = Expert(config.expert, adaptive)
        self.action_in = nn.Linear(config.action_width, width)
        self.action_out = nn.Linear(width, config.action_width)

    @property
    def fp8(self) -> Fp8Plan:
        """What ``precision`` fp8 quantises."""
        raise NotImplementedError

    # -- once a request ---------------------------------------------------------------------
    def vision(self, inputs: Inputs) -> torch.Tensor:
        """-> image tokens in the language model's width, [B, cameras, patches, width]."""
        batch, cameras = inputs.images.shape[:2]
        x = self.image(inputs.images.flatten(0, 1))
        return self.projector(x.to(self.projector.weight.dtype)).unflatten(0, (batch, cameras))

    def embed_prefix(
        self, inputs: Inputs, features: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> tokens [B, P, width], images then words, and which of them exist, bool [B, P]."""
        words = self.language.words(inputs.tokens)
        x = torch.cat((features.flatten(1, 2).float(), words), dim=1)
        images = inputs.image_mask.repeat_interleave(features.shape[2], dim=1)
        return x, torch.cat((images, inputs.token_mask), dim=1)

    def prefix(self, inputs: Inputs, features: torch.Tensor) -> Prefix:
        x, exists = self.embed_prefix(inputs, features)
        # Absent tokens take no position, so nothing depends on how much padding there is.
        positions = exists.cumsum(1) - 1
        mask = exists[:, None, None, :]
        layers = self.language.keys_values(x, rope(positions, self.config.language), mask)
        dtype = self.expert.dtype
        layers = tuple(KeyValue(kv.key.to(dtype), kv.value.to(dtype)) for kv in layers)
        return self.suffix_prefix(inputs, layers, exists)

    def suffix_prefix(
        self, inputs: Inputs, layers: tuple[KeyValue, ...], exists: torch.Tensor
    ) -> Prefix:
        """The language model's keys and values -> all that the chunk's rows attend to."""
        rows = torch.arange(self.config.horizon, device=exists.device)
        positions = exists.sum(1, keepdim=True) + rows
        own = exists.new_ones(exists.shape[0], self.config.horizon)
        mask = torch.cat((exists, own), dim=1)[:, None, None, :]
        return Prefix(layers, mask, rope(positions, self.config.expert))

    def commit(self, prefix: Prefix, committed: torch.Tensor) -> Prefix:
        """prefix for a chunk whose rows ``committed`` (bool [B, horizon]) are clean actions."""
        return replace(prefix, committed=committed)

    # -- once a load ------------------------------------------------------------------------
    def times(self, steps: int) -> torch.Tensor:
        """Flow time of each denoising step, float32 [steps]: 1, 1 - 1/steps, ..."""
        times = [1.0 + step * (-1.0 / steps) for step in range(steps)]
        return torch.tensor(times, dtype=torch.float32, device=self.action_in.weight.device)

    def constants(self, steps: int) -> torch.Tensor:
        """``condition`` of every denoising step, and last that of time 0: clean actions."""
        times = self.times(steps)
        return self.condition(torch.cat((times, times.new_zeros(1)))[:, None])

    def embed_time(self, time: torch.Tensor) -> torch.Tensor:
        """time [...] -> [..., width]: sines then cosines of periods min_period to max_period."""
        half = self.config.expert.width // 2
        ratio = self.config.max_period / self.config.min_period
        fraction = torch.linspace(0.0, 1.0, half, dtype=torch.float64, device=time.device)
        angle = time[..., None] * (2 * math.pi / (self.config.min_period * ratio**fraction))
        return torch.cat((angle.sin(), angle.cos()), dim=-1).float()

    def condition(self, time: torch.Tensor) -> torch.Tensor:
        """time [B, T], T one or the horizon -> what the expert needs to know of it, the first two
        axes the same."""
        raise NotImplementedError

    # -- once a denoising step --------------------------------------------------------------
    def velocity(self, x: torch.Tensor, prefix: Prefix, condition: torch.Tensor) -> torch.Tensor:
        """x [B, H, action_width] -> noise - actions, float32, for ``condition(time)``."""
        raise NotImplementedError

    def predict(
        self, x: torch.Tensor, step: int, prefix: Prefix, constants: torch.Tensor
    ) -> torch.Tensor:
        condition = constants[step : step + 1]
        if prefix.committed is not None:
            rows = prefix.committed[(..., *(None,) * (condition.ndim - 2))]
            condition = torch.where(rows, constants[-1:], condition)
        return self.velocity(x, prefix, condition)
