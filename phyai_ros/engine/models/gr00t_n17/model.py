# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T N1.7's modules, stateless between requests. Names follow the checkpoint's keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.layers.attention import additive
from phyai_ros.engine.layers.mlp import sinusoid
from phyai_ros.engine.layers.norm import layer_norm
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.base import Model
from phyai_ros.engine.models.gr00t_n17.category import (
    ActionEncoder,
    CategoryMlp,
    Chosen,
    category_mlp,
)
from phyai_ros.engine.models.gr00t_n17.config import GrootConfig
from phyai_ros.engine.models.gr00t_n17.dit import (
    DiT,
    KeyValue,
    Modulation,
    SelfAttentionTransformer,
)
from phyai_ros.engine.models.gr00t_n17.fp8 import fp8_plan
from phyai_ros.engine.models.gr00t_n17.layout import Layout
from phyai_ros.engine.models.gr00t_n17.text import TextModel
from phyai_ros.engine.models.gr00t_n17.vision import VisionTower
from phyai_ros.engine.quantize import Fp8Plan


@dataclass(frozen=True)
class Inputs:
    """One batch, on the model's device.

    patches [all patches, channels*temporal*patch^2], in [-1, 1]. state [B, history,
    max_state_dim], normalised. embodiments: weight row of each request. isolate_padding: keep
    padded tokens out of the VL self-attention. The reference lets them in, so that what it answers
    depends on which requests share a batch; the adapter keeps them out.
    """

    layout: Layout
    patches: torch.Tensor
    state: torch.Tensor
    embodiments: tuple[int, ...]
    isolate_padding: bool = True


@dataclass(frozen=True)
class Features:
    """image_tokens and each of deepstack: [image tokens, hidden]."""

    image_tokens: torch.Tensor
    deepstack: list[torch.Tensor]


@dataclass(frozen=True)
class Prefix:
    """All that depends on the observation and not on the denoising step.

    cross: per block its keys and values, None where it attends to itself. masks, attends: by block
    too. state [B, 1, embedding]. The rest: the embodiments' weights.
    """

    cross: list[KeyValue | None]
    masks: list[torch.Tensor | None]
    attends: list[torch.Tensor | None]
    state: torch.Tensor
    encode: Chosen
    mix: torch.Tensor
    finish: Chosen
    decode: tuple[Chosen, Chosen]
    embodiments: tuple[int, ...]
    backbone_features: torch.Tensor
    vl_embeds: torch.Tensor


@dataclass(frozen=True)
class Step:
    """What depends on the denoising step alone. time [embodiments or B, 1, embedding]: the action
    encoder's share of the bucket's sinusoid, bias included."""

    blocks: list[Modulation]
    out: Modulation
    time: torch.Tensor


class _Named(nn.Module):
    """A level of the checkpoint's key hierarchy."""

    def __init__(self, **children: nn.Module):
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


class ActionHead(nn.Module):
    """Checkpoint keys ``action_head.*``."""

    def __init__(self, config: GrootConfig):
        super().__init__()
        c = config
        self.model = DiT(c.dit, c.backbone_dim)
        self.state_encoder = CategoryMlp(
            c.embodiments, c.max_state_dim * c.state_history, c.hidden, c.embedding
        )
        self.action_encoder = ActionEncoder(c.embodiments, c.max_action_dim, c.embedding)
        self.action_decoder = CategoryMlp(c.embodiments, c.hidden, c.hidden, c.max_action_dim)
        self.vlln = nn.LayerNorm(c.backbone_dim, eps=1e-5) if c.use_vlln else None
        self.vl_self_attention = (
            SelfAttentionTransformer(c.vl_self_attention) if c.vl_self_attention.layers else None
        )
        self.position_embedding = (
            nn.Embedding(c.max_seq_len, c.embedding) if c.add_pos_embed else None
        )


class GrootModel(nn.Module):
    """The whole model; the parameter names are the keys of an Isaac-GR00T checkpoint."""

    def __init__(self, config: GrootConfig):
        super().__init__()
        self.config = config
        visual, language = VisionTower(config.vision), TextModel(config.text)
        self.backbone = _Named(model=_Named(model=_Named(visual=visual, language_model=language)))
        self.action_head = ActionHead(config)

    @property
    def fp8(self) -> Fp8Plan:
        return fp8_plan(self.config.dit.interleave)

    @property
    def visual(self) -> VisionTower:
        return self.backbone.model.model.visual  # type: ignore[union-attr,return-value]

    @property
    def language_model(self) -> TextModel:
        return self.backbone.model.model.language_model  # type: ignore[union-attr,return-value]

    @property
    def dtype(self) -> torch.dtype:
        return self.action_head.model.proj_out_2.weight.dtype

    # -- the runner's contract -----------------------------------------------------------------
    def vision(self, inputs: Inputs) -> Features:
        """All images of the batch at once."""
        tokens, deepstack = self.visual(inputs.patches.to(self.dtype), inputs.layout.grids)
        return Features(tokens, deepstack)

    def prefix(self, inputs: Inputs, features: Features) -> Prefix:
        """The language model, the head's layers over its tokens, and what the DiT reads of them."""
        layout, head = inputs.layout, self.action_head
        real = layout.real if layout.padded else None
        backbone = self.language_model(
            layout.ids,
            layout.positions,
            real,
            layout.image_index,
            features.image_tokens,
            features.deepstack,
        )
        vl = backbone
        if head.vlln is not None:
            vl = layer_norm(vl, head.vlln.weight.float(), head.vlln.bias.float(), head.vlln.eps)
        isolated = layout.padded and inputs.isolate_padding
        if head.vl_self_attention is not None:
            vl = head.vl_self_attention(vl, layout.real[:, None, None] if isolated else None)
        cross, masks, attends = self._cross(vl.to(self.dtype), layout, isolated)
        state = inputs.state.to(self.dtype).flatten(1).unsqueeze(1)
        mix, _ = head.action_encoder.W2.select(inputs.embodiments).split(self.config.embedding)
        return Prefix(
            cross=cross,
            masks=masks,
            attends=attends,
            state=category_mlp(state, head.state_encoder.select(inputs.embodiments)),
            encode=head.action_encoder.W1.select(inputs.embodiments),
            mix=mix,
            finish=head.action_encoder.W3.select(inputs.embodiments),
            decode=head.action_decoder.select(inputs.embodiments),
            embodiments=inputs.embodiments,
            backbone_features=backbone,
            vl_embeds=vl,
        )

    def constants(self, steps: int) -> list[Step]:
        """One a denoising step: bucket int(i / steps * buckets)."""
        buckets = [int(i / float(steps) * self.config.buckets) for i in range(steps)]
        everyone = tuple(range(self.config.embodiments))
        device = self.action_head.model.proj_out_2.weight.device
        return [self._step(torch.tensor([b], device=device), everyone) for b in buckets]

    def predict(
        self, x: torch.Tensor, step: int, prefix: Prefix, constants: Sequence[Step]
    ) -> torch.Tensor:
        """x [B, horizon, max_action_dim] -> the velocity towards the actions, float32."""
        constant = constants[step]
        return self._velocity(x, prefix, constant, _pick(constant.time, prefix.embodiments))

    def fused(self, operators: Operators) -> Model:
        """The same function from fused operators, on these weights."""
        from phyai_ros.engine.models.gr00t_n17.fused import FusedGroot

        return FusedGroot(self, operators)

    # -- for training --------------------------------------------------------------------------
    def velocity(self, x: torch.Tensor, buckets: torch.Tensor, prefix: Prefix) -> torch.Tensor:
        """The same with a time of its own for each request: buckets integer [B]. Differentiable."""
        step = self._step(buckets, prefix.embodiments)
        return self._velocity(x, prefix, step, step.time)

    # -- parts ---------------------------------------------------------------------------------
    def _velocity(
        self, x: torch.Tensor, prefix: Prefix, step: Step, time: torch.Tensor
    ) -> torch.Tensor:
        hidden = torch.cat([prefix.state, self.encode_actions(x, prefix, time)], dim=1)
        hidden = self.transform(hidden.float(), prefix, step)
        return category_mlp(hidden[:, 1:], prefix.decode).float()

    def encode_actions(
        self, x: torch.Tensor, prefix: Prefix, time: torch.Tensor, *, positions: bool = True
    ) -> torch.Tensor:
        """[B, horizon, embedding]: the action encoder, and the position embedding."""
        tokens = prefix.encode(x.to(self.dtype))
        tokens = prefix.finish(F.silu(torch.matmul(tokens, prefix.mix) + time))
        table = self.action_head.position_embedding
        if table is None or not positions:
            return tokens
        return tokens + table.weight[: tokens.shape[1]]

    def transform(self, hidden: torch.Tensor, prefix: Prefix, step: Step) -> torch.Tensor:
        """[B, 1 + horizon, embedding] -> [B, 1 + horizon, hidden]: the DiT."""
        dit = self.action_head.model
        parts = zip(
            dit.transformer_blocks,
            step.blocks,
            prefix.cross,
            prefix.masks,
            prefix.attends,
            strict=True,
        )
        for block, modulation, key_value, mask, attends in parts:
            hidden = block(hidden, modulation, key_value, mask, attends)
        return dit.output(hidden, step.out)

    def _step(self, buckets: torch.Tensor, embodiments: tuple[int, ...]) -> Step:
        dit = self.action_head.model
        blocks, out = dit.modulations(dit.timestep_embedding(buckets))
        width = self.config.embedding
        waves = sinusoid(buckets, width, divisor=width // 2)[:, None]
        _, rest = self.action_head.action_encoder.W2.select(embodiments).split(width)
        time = torch.matmul(waves, rest.weight.float()) + rest.bias.float()
        return Step(blocks, out, time.to(self.dtype))

    def _cross(
        self, vl: torch.Tensor, layout: Layout, isolated: bool
    ) -> tuple[list[KeyValue | None], list[torch.Tensor | None], list[torch.Tensor | None]]:
        """Per block: keys and values; the mask of text or image tokens; and, where a request might
        have none of them, who has."""
        dit, config = self.action_head.model, self.config
        cross: list[KeyValue | None] = []
        masks: list[torch.Tensor | None] = []
        attends: list[torch.Tensor | None] = []
        kinds = [layout.real & ~layout.image_mask, layout.real & layout.image_mask]
        biases = [additive(kind, vl.dtype)[:, None, None] for kind in kinds]
        images = kinds[1].any(1)[:, None, None]
        everything = additive(layout.real, vl.dtype)[:, None, None] if isolated else None
        for i, block in enumerate(dit.modulated()):
            own = dit.is_self(i)
            cross.append(None if own else block.attn1.key_value(vl))
            of_images = i % (2 * config.text_every) != 0
            masked = config.alternate and not own
            masks.append(biases[of_images] if masked else None if own else everything)
            attends.append(images if masked and of_images else None)
        return cross, masks, attends


def _pick(time: torch.Tensor, embodiments: tuple[int, ...]) -> torch.Tensor:
    if len(set(embodiments)) == 1:
        return time[embodiments[0] : embodiments[0] + 1]
    return time[torch.tensor(embodiments, device=time.device)]
