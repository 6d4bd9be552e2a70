# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7 from fused operators: the same function as ``model.py``, in fewer passes.

Rows of a batch are one axis. The residual streams are float32 and changed in place; every norm
takes the branch in front of it along. Weights that read the same input are packed once a load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import torch
from torch.nn import functional as F

from phyai_ros.engine.layers import rope
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.gr00t_n17.category import CategoryLinear, Chosen, category_mlp
from phyai_ros.engine.models.gr00t_n17.dit import PlainBlock
from phyai_ros.engine.models.gr00t_n17.fused_dit import (
    DitPrefix,
    DitStep,
    FusedDit,
    Linear,
    feed_forward,
    out,
    packed,
)
from phyai_ros.engine.models.gr00t_n17.fused_vision import FusedVision
from phyai_ros.engine.models.gr00t_n17.model import Features, GrootModel, Inputs, _pick
from phyai_ros.engine.quantize import asked, reads

_PIECE = 16
"""Columns of a product that are written at once."""


@dataclass(frozen=True)
class FusedPrefix:
    """As ``model.Prefix``, but what the DiT's blocks attend to."""

    dit: DitPrefix
    state: torch.Tensor
    encode: Chosen
    mix: torch.Tensor
    finish: Chosen
    decode: tuple[Chosen, Chosen]
    embodiments: tuple[int, ...]


@dataclass(frozen=True)
class Heads:
    """One embodiment's layers around the DiT, as ``CategoryLinear`` has them but [out, in]. mix:
    without its bias, which is the step's time. decode: its last rows may be zeros (``_PIECE``)."""

    state: tuple[Linear, Linear]
    encode: Linear
    mix: torch.Tensor
    finish: Linear
    decode: tuple[Linear, Linear]


@dataclass(frozen=True)
class FusedStep:
    """time as in ``model.Step``."""

    dit: DitStep
    time: torch.Tensor


class FusedGroot:
    """The runner's contract on a GrootModel's weights."""

    def __init__(self, model: GrootModel, operators: Operators):
        self.model, self.operators = model, operators
        dit = model.action_head.model
        with torch.no_grad():
            cross = [b.attn1 for i, b in enumerate(dit.modulated()) if not dit.is_self(i)]
            self._cross = [i for i in range(dit.config.layers) if not dit.is_self(i)]
            pairs = [linear for a in cross for linear in (a.to_k, a.to_v)]
            self._cross_weight = torch.cat([p.weight for p in pairs])
            self._cross_bias = torch.cat([p.bias for p in pairs])
            vl = model.action_head.vl_self_attention
            blocks = [] if vl is None else list(vl.transformer_blocks)
            self._vl = [(cast(PlainBlock, b), *packed(cast(PlainBlock, b).attn1)) for b in blocks]
            self._text = [
                (
                    torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
                    torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]),
                )
                for layer in cast(Any, model.language_model.layers)
                for a in (layer.self_attn,)
            ]
        text = model.language_model.config
        device = model.language_model.embed_tokens.weight.device
        self._frequencies = rope.inverse_frequencies(text.head_dim, text.rope_theta, device)
        self._axes = rope.mrope_axes(len(self._frequencies), text.mrope_section, device)
        self._vision = FusedVision(model.visual, operators)
        self._dit = FusedDit(dit, 1 + model.config.horizon, operators)
        self._heads: dict[int, Heads] = {}

    # -- once a load -----------------------------------------------------------------------------
    def constants(self, steps: int) -> list[FusedStep]:
        given = self.model.constants(steps)
        made = self._dit.steps([(step.blocks, step.out) for step in given])
        return [FusedStep(dit, step.time) for dit, step in zip(made, given, strict=True)]

    # -- once a request --------------------------------------------------------------------------
    def vision(self, inputs: Inputs) -> Features:
        """One size of image alone takes the fused path; a mixture runs as the model has it."""
        grids = inputs.layout.grids
        runs = [(len(list(same)), h * w) for (h, w), same in groupby(grids)]
        if len(runs) != 1:
            return self.model.vision(inputs)
        with self.operators.waiting():  # beside the library's kernels early ones are in the way
            return self._vision(inputs.patches.to(self.model.dtype), grids, *runs[0])

    def prefix(self, inputs: Inputs, features: Features) -> FusedPrefix:
        model, layout, head = self.model, inputs.layout, self.model.action_head
        batch, length = layout.ids.shape
        isolated = layout.padded and inputs.isolate_padding
        real = layout.real if isolated else None
        vl = self._vl_self_attention(*self._language(inputs, features), real, batch)
        keys, values = self._cross_keys(vl, batch, length)
        text, image = layout.real & ~layout.image_mask, layout.real & layout.image_mask
        exists: list[torch.Tensor | None] = []
        for i in range(head.model.config.layers):
            masked: torch.Tensor | None = None
            if not head.model.is_self(i):
                of_images = i % (2 * model.config.text_every) != 0
                masked = (image if of_images else text) if model.config.alternate else real
            exists.append(masked)
        chosen, embedding = inputs.embodiments, model.config.embedding
        mix, _ = head.action_encoder.W2.select(chosen).split(embedding)
        return FusedPrefix(
            self._dit.prefix(keys, values, exists),
            self._state(inputs), head.action_encoder.W1.select(chosen), mix,
            head.action_encoder.W3.select(chosen), head.action_decoder.select(chosen), chosen,
        )  # fmt: skip

    def _state(self, inputs: Inputs) -> torch.Tensor:
        """[B, 1, embedding]"""
        ops, state = self.operators, inputs.state.to(self.model.dtype).flatten(1)
        if len(set(inputs.embodiments)) > 1:
            chosen = self.model.action_head.state_encoder.select(inputs.embodiments)
            return category_mlp(state[:, None], chosen)
        first, second = self._heads_of(inputs.embodiments[0]).state
        return ops.linear(ops.linear(state, *first, "relu"), *second)[:, None]

    def _language(
        self, inputs: Inputs, features: Features
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """-> float32 [B L, hidden], before any final norm, and what is still to be added."""
        ops, layout, dtype = self.operators, inputs.layout, self.model.dtype
        text = self.model.language_model
        config = text.config
        batch, length = layout.ids.shape
        x = text.embed_tokens(layout.ids).float().flatten(0, 1)
        x.index_copy_(0, layout.image_index, features.image_tokens.float())
        angles = rope.mrope_angles(layout.positions, self._frequencies, self._axes)
        cos, sin = rope.tables(angles, torch.float32)
        real = layout.real if layout.padded else None
        shape = (batch, config.kv_heads, length, config.head_dim)
        key, value = (torch.empty(shape, dtype=dtype, device=x.device) for _ in range(2))
        branch = None
        for i, (layer, (qkv, gate_up)) in enumerate(
            zip(cast(Any, text.layers), self._text, strict=True)
        ):
            norm, attn = layer.input_layernorm, layer.self_attn
            h = ops.add_norm(
                x, branch, kind="rms", eps=norm.eps, dtype=reads(qkv), scale=norm.weight,
                ahead=asked(qkv),
            )  # fmt: skip
            q = ops.rope_cache(
                ops.branch(h, qkv), cos, sin, key, value, heads=config.heads,
                norms=(attn.q_norm.weight, attn.k_norm.weight), eps=config.eps,
                ahead=asked(attn.o_proj.weight),
            )  # fmt: skip
            assert q is not None
            y = ops.attention(q, key, value, exists=real, causal=True).flatten(0, 1)
            branch = ops.linear(y, attn.o_proj.weight)
            norm = layer.post_attention_layernorm
            h = ops.add_norm(
                x, branch, kind="rms", eps=norm.eps, dtype=reads(gate_up), scale=norm.weight,
                ahead=asked(gate_up),
            )  # fmt: skip
            branch = ops.linear(ops.gated_linear(h, gate_up, "silu"), layer.mlp.down_proj.weight)
            # After the last kept layer DeepStack would come too late to be read.
            if i < len(features.deepstack) and i < len(text.layers) - 1:
                x.index_add_(0, layout.image_index, features.deepstack[i].to(x.dtype))
        return x, branch

    def _vl_self_attention(
        self,
        x: torch.Tensor,
        branch: torch.Tensor | None,
        real: torch.Tensor | None,
        batch: int,
    ) -> torch.Tensor:
        """float32 [B L, hidden] and what is still to be added -> [B L, hidden] in the model's
        dtype."""
        ops, head, dtype = self.operators, self.model.action_head, self.model.dtype
        if head.vlln is not None:
            x, branch = ops.layer_norm(x, branch, head.vlln, torch.float32), None
        for block, weight, bias in self._vl:
            h = ops.layer_norm(x, branch, block.norm1, reads(weight), ahead=asked(weight))
            heads = block.attn1.heads
            y = ops.linear(h, weight, bias).view(batch, -1, 3, heads, h.shape[1] // heads)
            q, k, v = y.unbind(2)
            y = ops.attention(q, k.transpose(1, 2), v.transpose(1, 2), exists=real).flatten(0, 1)
            branch = ops.linear(y, out(block.attn1).weight, out(block.attn1).bias)
            up, down = feed_forward(block)
            h = ops.layer_norm(x, branch, block.norm3, reads(up.weight), ahead=asked(up.weight))
            h = ops.linear(h, up.weight, up.bias, "gelu_tanh")
            branch = ops.linear(h, down.weight, down.bias)
        if branch is None:
            return x.to(dtype)
        return torch.add(x, branch, out=torch.empty_like(x, dtype=dtype))

    def _cross_keys(
        self, vl: torch.Tensor, batch: int, length: int
    ) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
        """Keys and values of every cross-attention block, from one product."""
        config = self.model.action_head.model.config
        y = self.operators.linear(vl, self._cross_weight, self._cross_bias)
        y = y.view(batch, length, len(self._cross), 2, config.heads, config.head_dim)
        keys: list[torch.Tensor | None] = [None] * config.layers
        values = list(keys)
        for n, i in enumerate(self._cross):
            keys[i], values[i] = (y[:, :, n, j].transpose(1, 2) for j in range(2))
        return keys, values

    # -- once a denoising step -------------------------------------------------------------------
    def predict(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: Sequence[FusedStep]
    ) -> torch.Tensor:
        """x [B, horizon, max_action_dim] -> the velocity towards the actions, float32."""
        constant = constants[step]
        if len(set(prefix.embodiments)) > 1:
            return self._mixed(x, prefix, constant)
        ops, heads = self.operators, self._heads_of(prefix.embodiments[0])
        rows = x.to(self.model.dtype).flatten(0, 1)
        time = constant.time[prefix.embodiments[0], 0]
        tokens = ops.linear(ops.linear(rows, *heads.encode), heads.mix, time, "silu")
        tokens = ops.linear(tokens, *heads.finish).view(len(x), x.shape[1], -1)
        y = self._dit(self._hidden(tokens, prefix), len(x), prefix.dit, constant.dit)
        y = y.unflatten(0, (len(x), -1))[:, 1:].reshape(-1, y.shape[-1])
        y = ops.linear(ops.linear(y, *heads.decode[0], "relu"), *heads.decode[1])
        return y[:, : x.shape[-1]].float().view(x.shape)

    def _heads_of(self, embodiment: int) -> Heads:
        known = self._heads.get(embodiment)
        if known is None:
            head, width = self.model.action_head, self.model.config.embedding
            encoder, decoder = head.action_encoder, head.action_decoder
            states = head.state_encoder
            known = Heads(
                (_turned(states.layer1, embodiment), _turned(states.layer2, embodiment)),
                _turned(encoder.W1, embodiment),
                encoder.W2.W[embodiment, :width].t().contiguous(),
                _turned(encoder.W3, embodiment),
                (
                    _turned(decoder.layer1, embodiment),
                    _filled(*_turned(decoder.layer2, embodiment)),
                ),
            )
            self._heads[embodiment] = known
        return known

    def _hidden(self, tokens: torch.Tensor, prefix: FusedPrefix) -> torch.Tensor:
        """Action tokens [B, horizon, inner] -> the DiT's rows, float32 [B (1 + horizon), inner]."""
        table = self.model.action_head.position_embedding
        places = None if table is None else table.weight
        return self.operators.token_rows(prefix.state[:, 0], tokens, places)

    def _mixed(self, x: torch.Tensor, prefix: FusedPrefix, step: FusedStep) -> torch.Tensor:
        """A batch of several embodiments."""
        tokens = prefix.encode(x.to(self.model.dtype))
        time = _pick(step.time, prefix.embodiments)
        tokens = prefix.finish(F.silu(torch.matmul(tokens, prefix.mix) + time))
        y = self._dit(self._hidden(tokens, prefix), len(x), prefix.dit, step.dit)
        return category_mlp(y.unflatten(0, (len(x), -1))[:, 1:], prefix.decode).float()


def _turned(layer: CategoryLinear, embodiment: int) -> Linear:
    return layer.W[embodiment].t().contiguous(), layer.b[embodiment]


def _filled(weight: torch.Tensor, bias: torch.Tensor) -> Linear:
    """[out, in] and [out], filled up with zeros to whole pieces: 132 columns fit few kernels."""
    missing = -len(bias) % _PIECE
    return F.pad(weight, (0, 0, 0, missing)), F.pad(bias, (0, missing))
