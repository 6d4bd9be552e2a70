# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA (arXiv 2506.01844) as LeRobot ships it.

The language model reads images, instruction and state once a request and leaves its keys and
values, layer by layer. The action expert denoises the chunk beside it: at some layers it attends
to those keys and to its own together (causally among actions), at the others it only reads the
language model's keys and values through projections of its own, which are therefore part of the
prefix too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import merge_heads
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.stack import Stack
from phyai_ros.engine.models.base import Model
from phyai_ros.engine.models.smolvla.backbone import (
    Connector,
    DecoderLayer,
    RmsNorm,
    Rotary,
    VisionTower,
    rotary,
    rotate,
)
from phyai_ros.engine.models.smolvla.config import SmolVlaConfig

_PREFIXES = (
    ("model.vlm_with_expert.vlm.model.", ""),
    ("model.vlm_with_expert.", ""),
    ("model.", ""),
)

UNUSED = (r"model\.vlm_with_expert\.vlm\.lm_head\.weight",)
"""Checkpoint keys that inference reads only where ``TIED`` says so."""

TIED = {"text_model.embed_tokens.weight": "model.vlm_with_expert.vlm.lm_head.weight"}
"""Where the language model's head is its embedding, safetensors keeps one of the two names."""

FLOAT32 = ("state_proj", "action_in_proj", "action_out_proj", "action_time_mlp")
"""Parameters that stay float32 when the rest is bfloat16, as in the reference."""


def rename(key: str) -> str | None:
    """Checkpoint key -> parameter name of ``SmolVlaModel``."""
    for prefix, name in _PREFIXES:
        if key.startswith(prefix):
            return name + key.removeprefix(prefix)
    return None


@dataclass(frozen=True)
class SmolVlaInputs:
    """images: one [B, 3, S, S] a camera, in [-1, 1]; image_masks: one bool [B] a camera, False
    where the request has no such image. tokens, token_mask [B, L]: the prompt. state
    [B, max_state_dim]: normalised, zero padded. mark_masks: one bool [B] a camera, False where the
    request has not even the marks around an image; looked at only where the config has marks."""

    images: tuple[torch.Tensor, ...]
    image_masks: tuple[torch.Tensor, ...]
    tokens: torch.Tensor
    token_mask: torch.Tensor
    state: torch.Tensor
    mark_masks: tuple[torch.Tensor, ...] = ()


@dataclass(frozen=True)
class Embedded:
    """The prefix before its first layer: x [B, P, hidden], pad_mask [B, P] (True = real),
    positions [B, P]."""

    x: torch.Tensor
    pad_mask: torch.Tensor
    positions: torch.Tensor


@dataclass(frozen=True)
class SmolVlaPrefix:
    """What the expert reads of a request, one entry a backbone layer.

    keys, values [B, kv_heads, P, head_dim]: as that layer's expert attends to them. rotary: of the
    actions, which follow the prefix. mask_joint bool [B, 1, H, P + H], mask_cross [B, 1, 1, P].
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    rotary: Rotary
    mask_joint: torch.Tensor
    mask_cross: torch.Tensor


@dataclass(frozen=True)
class SmolVlaConstants:
    """time [steps, expert hidden]: the time's share of action_time_mlp_in, bias included. rotary:
    of actions counted from 0, which the cross-attention layers use."""

    time: torch.Tensor
    rotary: Rotary


class TextModel(nn.Module):
    """Words' embeddings and the backbone's kept layers; its norm is in no path here."""

    def __init__(self, config: SmolVlaConfig):
        super().__init__()
        text = config.vlm.text
        self.embed_tokens = nn.Embedding(text.vocab_size, text.hidden_size)
        self.layers = Stack[DecoderLayer](
            DecoderLayer(text, text.hidden_size, text.intermediate_size)
            for _ in range(config.num_vlm_layers)
        )
        self.norm = RmsNorm(text.hidden_size, text.rms_norm_eps)


class Expert(nn.Module):
    def __init__(self, config: SmolVlaConfig):
        super().__init__()
        text = config.vlm.text
        of_prefix = text.num_key_value_heads * text.head_dim
        self.layers = Stack[DecoderLayer](
            DecoderLayer(
                text,
                config.expert_hidden_size,
                config.expert_intermediate_size,
                None if config.attends_itself(layer) else of_prefix,
            )
            for layer, expert in enumerate(config.expert_of)
            if expert is not None
        )
        self.norm = RmsNorm(config.expert_hidden_size, text.rms_norm_eps)


class SmolVlaModel(nn.Module):
    def __init__(self, config: SmolVlaConfig):
        super().__init__()
        self.config = config
        hidden, width = config.vlm.text.hidden_size, config.expert_hidden_size
        self.vision_model = VisionTower(config.vlm.vision)
        self.connector = Connector(config.vlm, config.patches_side)
        self.text_model = TextModel(config)
        self.lm_expert = Expert(config)
        self.state_proj = nn.Linear(config.max_state_dim, hidden)
        self.action_in_proj = nn.Linear(config.max_action_dim, width)
        self.action_out_proj = nn.Linear(width, config.max_action_dim)
        self.action_time_mlp_in = nn.Linear(2 * width, width)
        self.action_time_mlp_out = nn.Linear(width, width)

    def vision(self, inputs: SmolVlaInputs) -> tuple[torch.Tensor, ...]:
        """-> image tokens [B, tokens, hidden] a camera, unscaled; all cameras in one batch."""
        images = torch.cat(inputs.images)
        return self.connector(self.vision_model(images)).chunk(len(inputs.images))

    def embed(self, inputs: SmolVlaInputs, features: Sequence[torch.Tensor]) -> Embedded:
        """Images, instruction, state: one sequence, both of the former times sqrt(hidden)."""
        scale = math.sqrt(self.config.vlm.text.hidden_size)
        parts, masks = [], []
        marks = inputs.mark_masks if self.config.image_marks else (None,) * len(features)
        for image, mask, marked in zip(features, inputs.image_masks, marks, strict=True):
            # The reference multiplies images by the factor rounded to their dtype, words by the
            # whole, and marks by nothing.
            pieces = [(image * torch.tensor(scale, dtype=image.dtype).item(), mask)]
            if marked is not None:
                before, after = self._marks(len(image))
                pieces = [(before, marked), *pieces, (after, marked)]
            for piece, there in pieces:
                parts.append(piece)
                masks.append(there[:, None].expand(-1, piece.shape[1]))
        parts.append(self.text_model.embed_tokens(inputs.tokens) * scale)
        parts.append(self.state_proj(inputs.state)[:, None])
        state_mask = torch.ones_like(inputs.token_mask[:, :1])
        pad_mask = torch.cat([*masks, inputs.token_mask, state_mask], dim=1)
        # The state is float32 and makes the whole sequence so, as in the reference.
        x = torch.cat([part.to(parts[-1].dtype) for part in parts], dim=1)
        return Embedded(x, pad_mask, pad_mask.cumsum(1) - 1)

    def _marks(self, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What stands before and after an image: [batch, 2, hidden] and [batch, 1, hidden]."""
        fake, whole = self.config.image_marks or (0, 0)
        table = self.text_model.embed_tokens.weight
        around = table[fake : fake + 1]
        before = torch.cat([around, table[whole : whole + 1]])
        return before.expand(batch, -1, -1), around.expand(batch, -1, -1)

    def caches(
        self, embedded: Embedded
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """-> post-rotary keys and values [B, kv_heads, P, head_dim] of every backbone layer, and
        the input [B, P, hidden] of the last layer, whose output nobody needs."""
        x = embedded.x
        tables = rotary(embedded.positions, self.config.vlm.text.head_dim)
        mask = self.prefix_mask(embedded)
        keys, values = [], []
        last = len(self.text_model.layers) - 1
        for i, layer in enumerate(self.text_model.layers):
            y = layer.input_layernorm(x)
            keys.append(rotate(layer.self_attn.key(y), tables))
            values.append(layer.self_attn.value(y))
            if i < last:
                q = rotate(layer.self_attn.query(y), tables)
                x = layer.finish(x, q, keys[i], values[i], mask)
        return keys, values, x

    @staticmethod
    def prefix_mask(embedded: Embedded) -> torch.Tensor:
        """bool [B, 1, P, P]: everyone sees everyone real, but only the state (last) sees itself.
        Padding rows see the same, so that no row is empty; nobody reads them."""
        length = embedded.pad_mask.shape[1]
        place = torch.arange(length, device=embedded.pad_mask.device)
        order = (place[None, :] < length - 1) | (place[:, None] == length - 1)
        return embedded.pad_mask[:, None, None, :] & order

    def prefix(self, inputs: SmolVlaInputs, features: Sequence[torch.Tensor]) -> SmolVlaPrefix:
        embedded = self.embed(inputs, features)
        keys, values, _ = self.caches(embedded)
        for i, expert in enumerate(self.config.expert_of):
            if expert is not None and not self.config.attends_itself(i):
                projection = self.lm_expert.layers.at(expert).self_attn
                keys[i] = projection.key(merge_heads(keys[i]))
                values[i] = projection.value(merge_heads(values[i]))
        pad_mask = embedded.pad_mask
        rows = torch.arange(self.config.chunk_size, device=pad_mask.device)
        batch = pad_mask.shape[0]
        mask_cross = pad_mask[:, None, None, :]
        causal = (rows[None, :] <= rows[:, None]).expand(batch, 1, -1, -1)
        return SmolVlaPrefix(
            tuple(keys),
            tuple(values),
            rotary(pad_mask.sum(1)[:, None] + rows, self.config.vlm.text.head_dim),
            torch.cat([mask_cross.expand(-1, -1, len(rows), -1), causal], dim=-1),
            mask_cross,
        )

    def time_embedding(self, steps: int) -> torch.Tensor:
        """float32 [steps, expert hidden]: sin | cos of 2 pi t / period, periods geometric between
        min_period and max_period; t falls from 1 by 1 / steps."""
        device = self.action_in_proj.weight.device
        half = self.config.expert_hidden_size // 2
        fraction = torch.linspace(0.0, 1.0, half, dtype=torch.float64, device=device)
        low, high = self.config.min_period, self.config.max_period
        period = low * (high / low) ** fraction
        times = torch.tensor(
            [1.0 + i * (-1.0 / steps) for i in range(steps)], dtype=torch.float32, device=device
        )
        angle = times[:, None] * (1.0 / period * 2 * math.pi)
        return torch.cat([angle.sin(), angle.cos()], dim=1).float()

    def constants(self, steps: int) -> SmolVlaConstants:
        linear, width = self.action_time_mlp_in, self.config.expert_hidden_size
        time = self.time_embedding(steps).to(linear.weight.dtype)
        rows = torch.arange(self.config.chunk_size, device=linear.weight.device)
        return SmolVlaConstants(
            F.linear(time, linear.weight[:, width:], linear.bias),
            rotary(rows[None], self.config.vlm.text.head_dim),
        )

    def embed_actions(
        self, x: torch.Tensor, step: int, constants: SmolVlaConstants
    ) -> torch.Tensor:
        """x [B, H, max_action_dim] -> the expert's input [B, H, expert hidden]."""
        weight = self.action_time_mlp_in.weight[:, : self.config.expert_hidden_size]
        y = F.linear(self.action_in_proj(x), weight) + constants.time[step]
        return self.action_time_mlp_out(F.silu(y))

    def predict(
        self,
        x: torch.Tensor,
        step: int,
        prefix: SmolVlaPrefix,
        constants: SmolVlaConstants,
    ) -> torch.Tensor:
        """Velocity [B, H, max_action_dim], noise minus actions."""
        x = self.embed_actions(x, step, constants)
        for i, expert in enumerate(self.config.expert_of):
            if expert is None:
                continue
            layer = self.lm_expert.layers.at(expert)
            y = layer.input_layernorm(x)
            q, k, v = layer.self_attn.query(y), prefix.keys[i], prefix.values[i]
            if self.config.attends_itself(i):
                k = torch.cat([k, rotate(layer.self_attn.key(y), prefix.rotary)], dim=2)
                v = torch.cat([v, layer.self_attn.value(y)], dim=2)
                x = layer.finish(x, rotate(q, prefix.rotary), k, v, prefix.mask_joint)
            else:
                x = layer.finish(x, rotate(q, constants.rotary), k, v, prefix.mask_cross)
        return self.action_out_proj(self.lm_expert.norm(x).float())

    def fused(self, operators: Operators) -> Model:
        """The same function from fused operators, on these weights."""
        from phyai_ros.engine.models.smolvla.fused import FusedSmolVla

        return FusedSmolVla(self, operators)
