# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA from fused operators: the same function as ``model.py``, in fewer passes.

Rows of a batch are one axis. The residual streams are float32 and changed in place; every norm
takes the branch in front of it along. Weights that read the same input are packed once a load, and
the expert's width is filled with zeros up to a multiple of 64, so that the products' tiles fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels.llama_expert import Layer, Tables
from phyai_ros.engine.layers.select import Operators
from phyai_ros.engine.models.smolvla.backbone import DecoderLayer, VisionLayer, rotary
from phyai_ros.engine.models.smolvla.fused_expert import FusedExpert, FusedPrefix, norm
from phyai_ros.engine.models.smolvla.model import Embedded, SmolVlaInputs, SmolVlaModel

_TILE = 64


class FusedConstants(NamedTuple):
    """enter: actions -> the time MLP's hidden, [width, action]; time: what each step adds to it,
    [steps, width]. rows: positions of actions counted from 0."""

    enter: torch.Tensor
    time: torch.Tensor
    rows: Tables


class FusedSmolVla:
    """The runner's contract on a SmolVlaModel's weights."""

    def __init__(self, model: SmolVlaModel, operators: Operators):
        self.model, self.operators = model, operators
        text = model.config.vlm.text
        self._heads, self._kv, self._d = (
            text.num_attention_heads, text.num_key_value_heads, text.head_dim,
        )  # fmt: skip
        self._eps = text.rms_norm_eps
        self._width = model.config.expert_hidden_size
        self._wide = -(-self._width // _TILE) * _TILE
        self._layers = [i for i, expert in enumerate(model.config.expert_of) if expert is not None]
        own = [model.config.attends_itself(i) for i in self._layers]
        with torch.no_grad():
            self._vision = [_vision(layer) for layer in model.vision_model.encoder.layers]
            self._text = [_packed(layer, True) for layer in model.text_model.layers]
            pairs = zip(model.lm_expert.layers, own, strict=True)
            self._own = own
            readers = [
                layer.self_attn
                for layer, is_own in zip(model.lm_expert.layers, own, strict=True)
                if not is_own
            ]
            self._cross = [
                torch.stack([getattr(attn, name).weight.t() for attn in readers])
                for name in ("k_proj", "v_proj")
                if readers
            ]
            more = self._wide - self._width
            time, out = model.action_time_mlp_out, model.action_out_proj
            self._expert = FusedExpert(
                [self._widened(_packed(layer, is_own)) for layer, is_own in pairs],
                (F.pad(time.weight, (0, more, 0, more)), F.pad(time.bias, (0, more))),
                self._norm_scale(model.lm_expert.norm.weight),
                (F.pad(out.weight, (0, more)), out.bias),
                heads=self._heads, kv=self._kv, eps=self._eps * self._width / self._wide,
                tokens=model.config.chunk_size, operators=operators,
            )  # fmt: skip

    def _norm_scale(self, weight: torch.Tensor) -> torch.Tensor:
        """The mean square of a filled row is over more numbers: with eps smaller alike the norm is
        short of this factor."""
        scale = weight.float() * math.sqrt(self._width / self._wide)
        return F.pad(scale, (0, self._wide - self._width))

    def _widened(self, layer: Layer) -> Layer:
        more = self._wide - self._width
        inner, outer = (0, more), (0, 0, 0, more)
        one, two = layer.norms
        return Layer(
            (self._norm_scale(one), self._norm_scale(two)),
            F.pad(layer.qkv, inner), F.pad(layer.output, outer), F.pad(layer.gate_up, inner),
            F.pad(layer.down, outer), layer.own,
        )  # fmt: skip

    # -- once a load -----------------------------------------------------------------------------
    def constants(self, steps: int) -> FusedConstants:
        model = self.model
        plain = model.constants(steps)
        mix = model.action_time_mlp_in.weight[:, : self._width].double()
        actions = model.action_in_proj
        enter = (mix @ actions.weight.double()).to(actions.weight.dtype)
        time = plain.time.double() + mix @ actions.bias.double()
        more = self._wide - self._width
        return FusedConstants(
            F.pad(enter, (0, 0, 0, more)).contiguous(),
            F.pad(time.to(plain.time.dtype), (0, more)),
            _doubled(plain.rotary),
        )

    # -- once a request --------------------------------------------------------------------------
    def vision(self, inputs: SmolVlaInputs) -> tuple[torch.Tensor, ...]:
        """-> image tokens [B, tokens, hidden] a camera, unscaled."""
        model, ops, tower = self.model, self.operators, self.model.vision_model
        patch, place = tower.embeddings.patch_embedding, tower.embeddings.position_embedding
        dtype = patch.weight.dtype
        patches = _patches(torch.cat(inputs.images).to(dtype), model.config.vlm.vision.patch_size)
        tokens, heads = patches.shape[1], model.config.vlm.vision.num_attention_heads
        x = ops.linear(patches.flatten(0, 1), patch.weight.flatten(1), patch.bias)
        x = (x.float().unflatten(0, (-1, tokens)) + place.weight.float()).flatten(0, 1)
        branch = None
        for layer, (qkv, bias) in zip(tower.encoder.layers, self._vision, strict=True):
            h = self._layer_norm(x, branch, layer.layer_norm1)
            y = ops.linear(h, qkv, bias).view(-1, tokens, 3, heads, h.shape[1] // heads)
            q, k, v = y.unbind(2)
            y = ops.attention(q, k.transpose(1, 2), v.transpose(1, 2)).flatten(0, 1)
            branch = ops.linear(y, layer.self_attn.out_proj.weight, layer.self_attn.out_proj.bias)
            h = self._layer_norm(x, branch, layer.layer_norm2)
            h = ops.linear(h, layer.mlp.fc1.weight, layer.mlp.fc1.bias, "gelu_tanh")
            branch = ops.linear(h, layer.mlp.fc2.weight, layer.mlp.fc2.bias)
        h = self._layer_norm(x, branch, tower.post_layernorm).unflatten(0, (-1, tokens))
        return model.connector(h).chunk(len(inputs.images))

    def _layer_norm(
        self, x: torch.Tensor, branch: torch.Tensor | None, norm: torch.nn.LayerNorm
    ) -> torch.Tensor:
        return self.operators.add_norm(
            x, branch, kind="layer", eps=norm.eps, dtype=norm.weight.dtype, scale=norm.weight,
            shift=norm.bias,
        )  # fmt: skip

    def _of(self, cache: torch.Tensor, layers: Sequence[int]) -> torch.Tensor:
        """cache [language layers, ...] -> those that these expert layers look at. (A list as an
        index would travel from the host.)"""
        return torch.cat(
            [cache[:0], *(cache[i : i + 1] for i in map(self._layers.__getitem__, layers))]
        )

    def prefix(self, inputs: SmolVlaInputs, features: Sequence[torch.Tensor]) -> FusedPrefix:
        model, config = self.model, self.model.config
        embedded = model.embed(inputs, features)
        keys, values = self._language(embedded)
        own = [n for n, is_own in enumerate(self._own) if is_own]
        cross = [n for n, is_own in enumerate(self._own) if not is_own]
        exists, horizon = embedded.pad_mask, config.chunk_size
        found: list[list[torch.Tensor]] = []
        for cache, weight in zip((keys, values), self._cross or (None, None), strict=True):
            made: list[torch.Tensor] = [cache] * len(self._own)
            rows = self._of(cache, own).transpose(2, 3)
            room = F.pad(rows, (0, 0, 0, 0, 0, horizon)).contiguous().transpose(2, 3)
            for n, one in zip(own, room, strict=True):
                made[n] = one
            if weight is not None:
                rows = self._of(cache, cross).transpose(2, 3)
                turned = torch.bmm(rows.flatten(3).flatten(1, 2), weight)
                turned = turned.view(*rows.shape[:3], self._kv, self._d).transpose(2, 3)
                for n, one in zip(cross, turned, strict=True):
                    made[n] = one
            found.append(made)
        places = torch.arange(horizon, device=exists.device)
        after = rotary(exists.sum(1)[:, None] + places, self._d)
        joint = torch.cat([exists, exists.new_ones(len(exists), horizon)], dim=1)
        key, value = tuple(found[0]), tuple(found[1])
        past = self._expert.past(key, value)
        return FusedPrefix(key, value, exists, joint, _doubled(after), past)

    def _language(self, embedded: Embedded) -> tuple[torch.Tensor, torch.Tensor]:
        """-> keys and values of every layer [layers, B, kv_heads, P, head_dim]."""
        ops, exists = self.operators, embedded.pad_mask
        batch, length = exists.shape
        dtype = self._text[0].qkv.dtype
        shape = (len(self._text), batch, self._kv, length, self._d)
        key, value = (torch.empty(shape, dtype=dtype, device=exists.device) for _ in range(2))
        cos, sin = _doubled(rotary(embedded.positions, self._d))
        x, branch = embedded.x.float().flatten(0, 1), None
        for i, layer in enumerate(self._text):
            h = norm(ops, x, branch, layer.norms[0], self._eps, dtype)
            last = i == len(self._text) - 1  # of which keys and values are all that is read
            weight, heads = layer.qkv, self._heads
            if last:
                weight, heads = weight[heads * self._d :], 0
            y = ops.linear(h, weight)
            q = ops.rope_cache(y, cos, sin, key[i], value[i], heads=heads)
            if q is None:
                break
            y = ops.attention(q, key[i], value[i], exists=exists, own_last=True).flatten(0, 1)
            branch = ops.linear(y, layer.output)
            h = norm(ops, x, branch, layer.norms[1], self._eps, dtype)
            branch = ops.linear(ops.gated_linear(h, layer.gate_up, "silu"), layer.down)
        return key, value

    # -- once a denoising step -------------------------------------------------------------------
    def predict(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: FusedConstants
    ) -> torch.Tensor:
        """Velocity [B, H, max_action_dim], noise minus actions."""
        hidden = constants.enter, constants.time[step]
        return self._expert(x.flatten(0, 1), hidden, prefix, constants.rows).view(x.shape)


def _vision(layer: VisionLayer) -> tuple[torch.Tensor, torch.Tensor]:
    """Query, key and value as one product."""
    parts = (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
    return torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])


def _packed(layer: DecoderLayer, own: bool) -> Layer:
    attn, mlp = layer.self_attn, layer.mlp
    parts = (attn.q_proj, attn.k_proj, attn.v_proj) if own else (attn.q_proj,)
    norms = (layer.input_layernorm.weight, layer.post_attention_layernorm.weight)
    return Layer(
        (norms[0].float(), norms[1].float()),
        torch.cat([p.weight for p in parts]),
        attn.o_proj.weight,
        torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        mlp.down_proj.weight,
        own,
    )


def _patches(images: torch.Tensor, size: int) -> torch.Tensor:
    """[B, 3, S, S] -> [B, patches, 3 size^2], in the order of a convolution's weights."""
    batch, channels, height, width = images.shape
    x = images.view(batch, channels, height // size, size, width // size, size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)


def _doubled(tables: Tables) -> Tables:
    """``rotary``'s tables [B, 1, T, head_dim / 2] -> what ``rope_cache`` takes."""
    cos, sin = (torch.cat([t[:, 0], t[:, 0]], dim=-1) for t in tables)
    return cos, sin
