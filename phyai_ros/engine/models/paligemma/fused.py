# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""pi0 and pi0.5 from fused operators: the same function as ``flow.py``, in fewer passes.

Rows of a batch are one axis. The residual stream is float32 and changed in place; every norm takes
the branch in front of it along; keys and values go straight into one cache, the chunk's own at its
end, where each denoising step overwrites them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F

from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.flow_step import Step as EulerStep
from phyai_ros.engine.kernels.gemma_expert import Linear, Vectors
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.rope import inverse_frequencies
from phyai_ros.engine.models.paligemma.flow import FlowPolicy, Inputs
from phyai_ros.engine.models.paligemma.fused_expert import (
    Cache,
    FusedExpert,
    FusedPrefix,
    Step,
    norm,
)
from phyai_ros.engine.models.paligemma.gemma import Rope
from phyai_ros.engine.models.paligemma.siglip import SiglipBlock
from phyai_ros.engine.quantize import reads
from phyai_ros.engine.solver import RtcIdentity


class FusedFlow:
    """The runner's contract on a FlowPolicy's own weights."""

    def __init__(self, model: FlowPolicy, operators: Operators):
        self.model, self.operators = model, operators
        self.expert = self._made_expert()
        self._vision_layers = [cast(SiglipBlock, layer) for layer in model.image.layers]
        with torch.no_grad():
            # Rows of whole 16 bytes: of others the library's products are slower.
            self._embed = _filled(model.image.patch.weight.flatten(1), 8)
            self._frequencies = [
                inverse_frequencies(of.head_dim, of.rope_theta, model.projector.weight.device)
                for of in (model.config.language, model.config.expert)
            ]
            self._language_norms = [
                (_plain(layer.norm1), _plain(layer.norm2)) for layer in model.language.layers
            ]

    # -- once a request --------------------------------------------------------------------------
    def vision(self, inputs: Inputs) -> torch.Tensor:
        """-> image tokens in the language model's width, [B, cameras, patches, width]."""
        with self.operators.waiting():  # beside the library's kernels early ones are in the way
            return self._tower(inputs)

    def _tower(self, inputs: Inputs) -> torch.Tensor:
        model, ops, image = self.model, self.operators, self.model.image
        batch, cameras = inputs.images.shape[:2]
        views, size = [inputs.images.flatten(0, 1)], image.config.patch_size
        embed = self._embed
        patches = ops.patches(views, size, embed.dtype, width=embed.shape[1])
        tokens = patches.shape[1]
        branch = ops.linear(patches.flatten(0, 1), embed, image.patch.bias)
        x = torch.empty(branch.shape, dtype=torch.float32, device=branch.device)
        begin: dict[str, torch.Tensor] = {"start": image.position}
        for layer in self._vision_layers:
            h = ops.layer_norm(x, branch, layer.norm1, reads(layer.qkv.weight), **begin)
            begin = {}
            qkv = ops.linear(h, layer.qkv.weight, layer.qkv.bias)
            q, k, v = qkv.view(-1, tokens, 3, layer.heads, qkv.shape[1] // layer.heads // 3).unbind(
                2
            )
            y = ops.attention(q, k.transpose(1, 2), v.transpose(1, 2)).flatten(0, 1)
            branch = ops.branch(y, layer.output.weight, layer.output.bias)
            h = ops.layer_norm(x, branch, layer.norm2, reads(layer.up.weight))
            h = ops.linear(h, layer.up.weight, layer.up.bias, "gelu_tanh")
            branch = ops.branch(h, layer.down.weight, layer.down.bias)
        h = ops.layer_norm(x, branch, image.norm, model.projector.weight.dtype, **begin)
        h = ops.linear(h, model.projector.weight, model.projector.bias)
        return h.view(batch, cameras, tokens, -1)

    def prefix(self, inputs: Inputs, features: torch.Tensor) -> FusedPrefix:
        model, config, ops = self.model, self.model.config, self.operators
        table = model.language.embed.weight
        x = ops.flow_tokens(
            features.flatten(1, 2), table, inputs.tokens, factor=math.sqrt(table.shape[1])
        )
        places = partial(
            ops.flow_places, inputs.image_mask, inputs.token_mask, patches=features.shape[2]
        )
        exists, *positions = places(self._frequencies[0])
        (batch, length), rows = exists.shape, self.expert.tokens
        expert = config.expert
        cache = Cache(
            *(
                torch.empty(
                    (expert.depth, batch, expert.kv_heads, length + rows, expert.head_dim),
                    dtype=model.expert.dtype,
                    device=x.device,
                )
                for _ in range(2)
            )
        )
        self._language(x.flatten(0, 1), positions, exists, cache)
        first = self._first(inputs)
        before = self.expert.before(first)
        # Last, in a plain launch: what is above is complete before an early launch of the solver
        # can begin, which is what ``GemmaExpert`` asks for.
        exists, *tables = places(self._frequencies[1], first=length, behind=rows, plain=True)
        chunk = Rope(*(t[:, None] for t in tables))
        past = self.expert.past(cache, length)
        return FusedPrefix(cache, exists, chunk, length, past, first, before)

    def _language(
        self,
        x: torch.Tensor,
        positions: Sequence[torch.Tensor],
        exists: torch.Tensor,
        cache: Cache,
    ) -> None:
        """x [B P, width], used up; positions: cosine and sine, [B, P, head_dim]. Fills the cache's
        first P keys and values."""
        model, ops = self.model, self.operators
        batch, length = exists.shape
        config = model.config.language
        layers = list(model.language.layers)
        dtype = layers[0].dtype
        shape = (config.depth, batch, config.kv_heads, length, config.head_dim)
        key, value = (torch.empty(shape, dtype=dtype, device=x.device) for _ in range(2))
        cos, sin = positions
        branch = None
        for i, (layer, norms) in enumerate(zip(layers, self._language_norms, strict=True)):
            weight, heads = layer.attention.qkv.weight, config.heads
            h = norm(ops, x, branch, norms[0], None, config.eps, reads(weight))
            if i == len(layers) - 1:  # of the last layer, keys and values are all that is read
                weight, heads = weight[heads * config.head_dim :], 0
            y = ops.branch(h, weight)
            q = ops.rope_cache(y, cos, sin, key[i], value[i], heads=heads)
            if q is None:
                break
            y = ops.attention(q, key[i], value[i], exists=exists).flatten(0, 1)
            branch = ops.branch(y, layer.attention.output.weight)
            h = norm(ops, x, branch, norms[1], None, config.eps, reads(layer.mlp.gate_up.weight))
            gate_up, down = layer.mlp.gate_up.weight, layer.mlp.down.weight
            branch = ops.gated_branch(h, gate_up, down, "gelu_tanh")
        ops.place_rows(key, value, cache.key, cache.value)

    def _made_expert(self) -> FusedExpert:
        model, config = self.model, self.model.config
        leave = _linear(model.action_out)
        return FusedExpert(model.expert, config.expert, config.horizon, leave, self.operators)

    def _first(self, inputs: Inputs) -> torch.Tensor | None:
        """The chunk's first row where it is no action, float32 [B, 1, width]."""
        return None

    # -- once a denoising step -------------------------------------------------------------------
    def _step(self, step: int, constants: Any) -> tuple[Linear, Step]:
        """What makes rows of actions, and what the step's time decides."""
        raise NotImplementedError

    def predict(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: Any
    ) -> torch.Tensor:
        enter, of = self._step(step, constants)
        return self.expert.velocity(x.flatten(0, 1), enter, prefix, of).view(x.shape)

    def advance(
        self, x: torch.Tensor, step: int, prefix: FusedPrefix, constants: Any, guide: RtcIdentity,
        numbers: EulerStep,
    ) -> torch.Tensor:  # fmt: skip
        """``base.AdvancingModel``."""
        enter, of = self._step(step, constants)
        euler = Euler.of(x, guide.target, guide.weights, numbers)
        return self.expert.velocity(euler.x, enter, prefix, of, euler).view(x.shape)


class FusedPi05(FusedFlow):
    def constants(self, steps: int) -> list[Step]:
        """Of every step, of every norm."""
        every = self.model.constants(steps)
        *times, clean = ([_modulation(row) for row in step[0]] for step in every)
        out = []
        for norms, folded in zip(times, self.expert.folded(times), strict=True):
            either = None
            if self.model.config.trained_delay:
                either = [_stacked(one, other) for one, other in zip(norms, clean, strict=True)]
            out.append(Step(norms, folded, either))
        return out

    def commit(self, prefix: FusedPrefix, committed: torch.Tensor) -> FusedPrefix:
        """prefix for a chunk whose rows ``committed`` (bool [B, horizon]) are clean actions."""
        return prefix._replace(pick=committed.flatten().to(torch.int32))

    def _step(self, step: int, constants: list[Step]) -> tuple[Linear, Step]:
        return _linear(self.model.action_in), constants[step]


class FusedPi0(FusedFlow):
    """The state token is the first row of every step's chunk: what a step costs is its launches and
    its weights, whatever its rows, where a pass of the token alone reads all weights once more.
    It sees the prefix and itself, so that its keys and values are the same in every step."""

    def _made_expert(self) -> FusedExpert:
        model, config = cast(Any, self.model), self.model.config
        return FusedExpert(
            model.expert, config.expert, 1 + config.horizon, _linear(model.action_out),
            self.operators, alone=True, second=_linear(model.time_out),
        )  # fmt: skip

    def _first(self, inputs: Inputs) -> torch.Tensor:
        return cast(Any, self.model).embed_state(inputs.state).float()

    def constants(self, steps: int) -> tuple[torch.Tensor, Step, torch.Tensor]:
        """The time's share of the action tokens; the norms' weights; and the action projection
        with the time MLP's first layer after it, which is one linear map."""
        model = cast(Any, self.model)
        pairs = ((layer.norm1, layer.norm2) for layer in model.expert.layers)
        norms = [_plain(norm) for pair in pairs for norm in pair]
        norms.append(_plain(model.expert.norm))
        actions = model.time_in.weight.chunk(2, dim=1)[0]
        folded = (actions.double() @ model.action_in.weight.double()).to(actions.dtype)
        (through,) = self.expert.folded([norms])
        return model.constants(steps), Step(norms, through), folded.contiguous()

    def _step(
        self, step: int, constants: tuple[torch.Tensor, Step, torch.Tensor]
    ) -> tuple[Linear, Step]:
        times, of, folded = constants
        return Linear(folded, times[step, 0]), of


def _linear(layer: torch.nn.Linear) -> Linear:
    return Linear(layer.weight, layer.bias)


def _filled(weight: torch.Tensor, step: int) -> torch.Tensor:
    """[rows, columns], zeros behind up to a multiple of ``step`` columns."""
    return F.pad(weight, (0, -weight.shape[1] % step))


def _plain(norm: torch.nn.Module) -> Vectors:
    return Vectors(1.0 + cast(torch.Tensor, norm.weight).detach().float())


def _modulation(row: torch.Tensor) -> Vectors:
    """row [3 * width]: what an adaptive norm's layer says of one flow time."""
    scale, shift, gate = row.float().chunk(3)
    return Vectors(1.0 + scale, shift.contiguous(), gate.contiguous())


def _stacked(one: Vectors, other: Vectors) -> Vectors:
    """[width] each -> [2, width]."""
    pairs = zip(one, other, strict=True)
    return Vectors(*(torch.stack([cast(torch.Tensor, v) for v in pair]) for pair in pairs))
