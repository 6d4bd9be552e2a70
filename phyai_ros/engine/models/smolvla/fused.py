# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""SmolVLA from fused operators: the same function as ``model.py``, in fewer passes.

Rows of a batch are one axis. The residual streams are float32 and changed in place; every norm
takes the branch in front of it along. Weights that read the same input are packed once a load, and
the expert's width is filled with zeros up to a multiple of 64, so that the products' tiles fit.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels.flow_step import Euler, Step
from phyai_ros.engine.kernels.llama_expert import Layer, Tables
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.smolvla.backbone import Connector, VisionLayer, periods
from phyai_ros.engine.models.smolvla.fused_expert import FusedExpert, FusedPrefix, packed
from phyai_ros.engine.models.smolvla.fused_language import FusedLanguage
from phyai_ros.engine.models.smolvla.model import SmolVlaInputs, SmolVlaModel
from phyai_ros.engine.solver import RtcIdentity

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
        text, config = model.config.vlm.text, model.config
        self._width = config.expert_hidden_size
        self._wide = -(-self._width // _TILE) * _TILE
        with torch.no_grad():
            self._vision = [_vision(layer) for layer in model.vision_model.encoder.layers]
            self._order = _order(model.connector).to(model.state_proj.weight.device)
            self._language = FusedLanguage(model, operators)
            own = [
                config.attends_itself(i) for i, n in enumerate(config.expert_of) if n is not None
            ]
            pairs = zip(model.lm_expert.layers, own, strict=True)
            more = self._wide - self._width
            time, out = model.action_time_mlp_out, model.action_out_proj
            self._expert = FusedExpert(
                [self._widened(packed(layer, is_own)) for layer, is_own in pairs],
                (F.pad(time.weight, (0, more, 0, more)), F.pad(time.bias, (0, more))),
                self._norm_scale(model.lm_expert.norm.weight),
                (F.pad(out.weight, (0, more)), out.bias),
                heads=text.num_attention_heads, kv=text.num_key_value_heads,
                eps=text.rms_norm_eps * self._width / self._wide, tokens=config.chunk_size,
                operators=operators,
            )  # fmt: skip
            self._periods = periods(text.head_dim, model.state_proj.weight.device)

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
    def vision(self, inputs: SmolVlaInputs) -> torch.Tensor:
        """-> image tokens [cameras, B, tokens, hidden], unscaled."""
        model, ops, tower = self.model, self.operators, self.model.vision_model
        patch, place = tower.embeddings.patch_embedding, tower.embeddings.position_embedding
        size, heads = patch.kernel_size[0], model.config.vlm.vision.num_attention_heads
        patches = ops.patches(inputs.images, size, patch.weight.dtype)
        tokens = patches.shape[1]
        branch = ops.linear(patches.flatten(0, 1), patch.weight.flatten(1), patch.bias)
        x = torch.empty(branch.shape, dtype=torch.float32, device=branch.device)
        begin: dict[str, torch.Tensor] = {"start": place.weight}
        dtype = tower.post_layernorm.weight.dtype
        for layer, (qkv, bias) in zip(tower.encoder.layers, self._vision, strict=True):
            h = ops.layer_norm(x, branch, layer.layer_norm1, dtype, **begin)
            begin = {}
            y = ops.linear(h, qkv, bias).view(-1, tokens, 3, heads, h.shape[1] // heads)
            q, k, v = y.unbind(2)
            y = ops.attention(q, k.transpose(1, 2), v.transpose(1, 2)).flatten(0, 1)
            branch = ops.linear(y, layer.self_attn.out_proj.weight, layer.self_attn.out_proj.bias)
            h = ops.layer_norm(x, branch, layer.layer_norm2, dtype)
            h = ops.linear(h, layer.mlp.fc1.weight, layer.mlp.fc1.bias, "gelu_tanh")
            branch = ops.linear(h, layer.mlp.fc2.weight, layer.mlp.fc2.bias)
        h = ops.layer_norm(x, branch, tower.post_layernorm, dtype, order=self._order, **begin)
        last = cast(torch.nn.Linear, model.connector.modality_projection["proj"])
        y = ops.linear(h.view(-1, last.in_features), last.weight)
        return y.view(len(inputs.images), len(inputs.images[0]), -1, last.out_features)

    def prefix(self, inputs: SmolVlaInputs, features: torch.Tensor) -> FusedPrefix:
        """features: of ``vision``."""
        model, ops, config = self.model, self.operators, self.model.config
        horizon, marks = config.chunk_size, config.image_marks
        exists, joint, cos, sin = ops.prefix_places(
            torch.stack(inputs.image_masks), inputs.token_mask, self._periods,
            patches=features.shape[2], behind=horizon,
            marks=None if marks is None else torch.stack(inputs.mark_masks),
        )  # fmt: skip
        state = ops.row_linear(inputs.state, model.state_proj.weight, model.state_proj.bias)
        x = ops.prefix_rows(
            features, model.text_model.embed_tokens.weight, inputs.tokens, state,
            factor=math.sqrt(config.vlm.text.hidden_size), marks=marks,
        )  # fmt: skip
        length = exists.shape[1]
        within, after = (
            (cos[:, rows], sin[:, rows]) for rows in (slice(length), slice(length, None))
        )
        key, value = self._language(x.float().flatten(0, 1), exists, within, behind=horizon)
        return FusedPrefix(key, value, exists, joint, after, self._expert.past(key, value))

    # -- once a denoising step -------------------------------------------------------------------
    def predict(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: FusedConstants
    ) -> torch.Tensor:
        """Velocity [B, H, max_action_dim], noise minus actions."""
        hidden = constants.enter, constants.time[step]
        v = self._expert(x.flatten(0, 1), hidden, prefix, constants.rows, first=step == 0)
        return v.view(x.shape)

    def advance(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: FusedConstants,
        guide: RtcIdentity, numbers: Step,
    ) -> torch.Tensor:  # fmt: skip
        """``base.AdvancingModel``."""
        hidden = constants.enter, constants.time[step]
        euler = Euler.of(x, guide.target, guide.weights, numbers)
        y = self._expert(euler.x, hidden, prefix, constants.rows, first=step == 0, euler=euler)
        return y.view(x.shape)


def _vision(layer: VisionLayer) -> tuple[torch.Tensor, torch.Tensor]:
    """Query, key and value as one product."""
    parts = (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
    return torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])


def _order(connector: Connector) -> torch.Tensor:
    """int32 [patches]: where the connector looks for each patch of an image."""
    there = torch.arange(connector.side**2, dtype=torch.float32)[None, :, None]
    return connector.shuffled(there).flatten().argsort().to(torch.int32)


def _doubled(tables: Tables) -> Tables:
    """``rotary``'s tables [B, 1, T, head_dim / 2] -> what ``rope_cache`` takes."""
    cos, sin = (torch.cat([t[:, 0], t[:, 0]], dim=-1) for t in tables)
    return cos, sin
