# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The action expert from fused operators: layer by layer on any shape, and for one request's chunk
in five launches a layer where ``kernels/gemma_expert.py`` can and was measured to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch

from phyai_ros.engine.kernels import stream_linear
from phyai_ros.engine.kernels.cluster_product import Weight
from phyai_ros.engine.kernels.flow_step import Euler
from phyai_ros.engine.kernels.gemma_expert import (
    FoldedStep,
    GemmaExpert,
    Layer,
    Linear,
    Past,
    Stream,
    Vectors,
)
from phyai_ros.engine.layers.clusters import Clusters
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.paligemma.config import GemmaConfig
from phyai_ros.engine.models.paligemma.flow import Expert
from phyai_ros.engine.models.paligemma.gemma import GemmaBlock, Rope
from phyai_ros.engine.quantize import QuantizedWeight, reads


class Cache(NamedTuple):
    """Of every layer of the expert: key, value [depth, B, kv, L, d]."""

    key: torch.Tensor
    value: torch.Tensor


class FusedPrefix(NamedTuple):
    """cache: the prefix's keys and values, and room for the chunk's from ``start``. exists: bool
    [B, L]. positions: of the chunk's rows. past: ``cache`` as clusters take it, None where they
    cannot serve it. first: the chunk's first row where it is no action, float32 [B, 1, width], and
    before: the same as clusters take it. pick: int32 [B H], 1 for rows that hold clean actions
    already, None where there are none."""

    cache: Cache
    exists: torch.Tensor
    positions: Rope
    start: int
    past: list[Past] | None = None
    first: torch.Tensor | None = None
    before: torch.Tensor | None = None
    pick: torch.Tensor | None = None


class Step(NamedTuple):
    """What a denoising step's time decides. norms: of every norm of the expert, in order; folded:
    the same for clusters, None where there are none. either: ``norms`` beside those of clean
    actions, [2, width] each."""

    norms: list[Vectors]
    folded: FoldedStep | None = None
    either: list[Vectors] | None = None


class FusedExpert:
    """tokens: rows of a chunk. leave: what makes a velocity of them, behind the final norm. alone:
    the first row is no action: it sees none of the others, which see it, and no velocity is made of
    it. second: the second layer of two that make rows of actions."""

    def __init__(
        self, model: Expert, config: GemmaConfig, tokens: int, leave: Linear, operators: Operators,
        *, alone: bool = False, second: Linear | None = None,
    ):  # fmt: skip
        self._model, self._config, self._operators = model, config, operators
        self._leave, self._second = leave, second
        self.tokens, self._alone = tokens, alone
        self._blocks = list(cast("Sequence[GemmaBlock]", model.layers))
        layers = [
            Layer(
                x.attention.qkv.weight,
                x.attention.output.weight,
                x.mlp.gate_up.weight,
                x.mlp.down.weight,
            )
            for x in self._blocks
        ]
        self._fp8 = any(
            isinstance(w, QuantizedWeight) for layer in layers for w in vars(layer).values()
        )
        self.clusters = Clusters(
            "action expert",
            lambda: (
                operators.gemma_expert(
                    layers, tokens=tokens, heads=config.heads, eps=config.eps, alone=alone,
                    second=second,
                )
                if stream_linear.fits(leave.weight)
                else None
            ),
        )  # fmt: skip

    # -- once a load and once a request ----------------------------------------------------------
    def folded(self, steps: Sequence[Sequence[Vectors]]) -> Sequence[FoldedStep | None]:
        """Of every step's norms, what ``Step.folded`` says."""
        kernels = self.clusters.kernels
        return [None] * len(steps) if kernels is None else kernels.folded(steps, self._leave)

    def past(self, cache: Cache, at: int) -> list[Past] | None:
        """cache as ``velocity`` takes it, where clusters can serve it: ``at`` rows stand in front
        of the chunk's."""
        kernels, (depth, batch, kv, length, d) = self.clusters.kernels, cache.key.shape
        if kernels is None or batch * kv != 1 or not kernels.takes(at, length - at):
            return None
        key, value = (t.view(depth, length, d) for t in cache)
        return self.clusters.attempt(lambda: kernels.over(key, value, at=at))

    def before(self, first: torch.Tensor | None) -> torch.Tensor | None:
        """``FusedPrefix.before`` of its ``first``, where clusters make rows of actions as well."""
        kernels = self.clusters.kernels
        if first is None or len(first) > 1 or kernels is None or kernels.hidden_layer is None:
            return None
        return kernels.hidden_layer.before(first[0])

    # -- once a denoising step -------------------------------------------------------------------
    def velocity(
        self, x: torch.Tensor, enter: Linear, prefix: FusedPrefix, of: Step,
        euler: Euler | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """x: actions [B H, narrow], contiguous. enter: what makes rows of them, or the first of two
        layers, with SiLU behind it. -> what ``leave`` makes of the expert's output, float32 [B H,
        out]; or what ``euler`` makes of that velocity."""
        norms = of.norms if prefix.pick is None else of.either
        assert norms is not None

        def layers(x: torch.Tensor) -> torch.Tensor:
            h = self(self._entered(x, enter, prefix.first), prefix, norms)
            if self._alone:
                h = h.view(-1, self.tokens, h.shape[1])[:, 1:].flatten(0, 1)
            return self._operators.stepped(self._rows(h, self._leave), euler)

        kernels, folded, past = self.clusters.kernels, of.folded, prefix.past
        if kernels is None or past is None or folded is None or prefix.pick is not None:
            return layers(x)

        def launches(x: torch.Tensor) -> torch.Tensor:
            stream = self._stream(kernels, x, enter, prefix, folded.norms[0].scale)
            cos, sin = (t[0, 0] for t in prefix.positions)
            kernels(stream, past, prefix.exists[0], cos, sin, folded.norms)
            return kernels.leave(stream, folded.leave, euler)

        return self.clusters.faster(self._operators, self._name(), x, launches, layers)

    def _entered(self, x: torch.Tensor, enter: Linear, first: torch.Tensor | None) -> torch.Tensor:
        """All rows of the chunk, float32 [B T, width], by operators."""
        if self._second is None:
            rows = self._rows(x, enter)
        else:
            hidden = self._operators.row_linear(x.to(enter.weight.dtype), *enter, "silu")
            rows = self._operators.linear(hidden, *self._second).float()
        if first is None:
            return rows
        return torch.cat((first, rows.unflatten(0, (len(first), -1))), dim=1).flatten(0, 1)

    def _stream(
        self, kernels: GemmaExpert, x: torch.Tensor, enter: Linear, prefix: FusedPrefix,
        scale: torch.Tensor,
    ) -> Stream:  # fmt: skip
        """The same in the kernels' order. scale: of the first norm."""
        if stream_linear.fits(enter.weight):
            if self._second is None:
                return kernels.enter(x, scale, enter)
            if kernels.hidden_layer is not None and prefix.before is not None:
                return Stream(*kernels.hidden_layer(x, enter, prefix.before, scale))
        return kernels.enter(self._entered(x, enter, prefix.first), scale)

    def _rows(self, x: torch.Tensor, linear: Linear) -> torch.Tensor:
        return self._operators.row_linear(x.to(linear.weight.dtype), *linear).float()

    def _name(self) -> str:
        """Without the prefix's length: both attend to it in much the same share of their time."""
        c = self._config
        kind = "fp8 gemma expert" if self._fp8 else "gemma expert"
        return (
            f"{kind} B1 T{self.tokens} {c.depth}x{c.width}x{c.mlp_width} "
            f"H{c.heads}/{c.kv_heads} d{c.head_dim} {str(self._model.dtype).removeprefix('torch.')}"
        )

    def __call__(
        self, x: torch.Tensor, prefix: FusedPrefix, norms: Sequence[Vectors]
    ) -> torch.Tensor:
        """Layer by layer. x [B T, width] float32, used up. Attends to the cache's keys that exist,
        its own among them, which it writes from ``start`` on. norms: of every norm, in order, two
        sets where rows ``pick``. -> float32 after the final norm."""
        ops, config, dtype = self._operators, self._config, self._model.dtype
        cache, exists, pick = prefix.cache, prefix.exists, prefix.pick
        cos, sin = (t[:, 0] for t in prefix.positions)
        branch, gate = None, None

        def taken(weight: Weight) -> torch.dtype:
            """Norms that pick leave no E4M3 rows."""
            return reads(weight) if pick is None else dtype

        def parts(h: Any, weight: Weight) -> Any:
            """For a norm or a rotation to add; those that pick add no raw products."""
            raw = isinstance(weight, QuantizedWeight) and pick is None
            return ops.branch(h, weight) if raw else ops.linear_parts(h, weight)

        for i, layer in enumerate(self._blocks):
            key, value = cache.key[i], cache.value[i]
            weight = layer.attention.qkv.weight
            h = norm(ops, x, branch, norms[2 * i], gate, config.eps, taken(weight), pick)
            y = parts(h, weight)
            q = ops.rope_cache(y, cos, sin, key, value, heads=config.heads, at=prefix.start)
            assert q is not None
            y = ops.attention(q, key, value, exists=exists, first_alone=self._alone).flatten(0, 1)
            branch, gate = parts(y, layer.attention.output.weight), norms[2 * i].gate
            weight = layer.mlp.gate_up.weight
            h = norm(ops, x, branch, norms[2 * i + 1], gate, config.eps, taken(weight), pick)
            h = ops.gated_linear(h, weight, "gelu_tanh")
            branch = parts(h, layer.mlp.down.weight)
            gate = norms[2 * i + 1].gate
        return norm(ops, x, branch, norms[-1], gate, config.eps, torch.float32, pick)


def norm(
    ops: Operators,
    x: torch.Tensor,
    branch: torch.Tensor | None,
    vectors: Vectors,
    gate: torch.Tensor | None,
    eps: float,
    dtype: torch.dtype,
    pick: torch.Tensor | None = None,
) -> torch.Tensor:
    options = {} if pick is None else {"pick": pick}
    return ops.add_norm(
        x, branch, kind="rms", eps=eps, dtype=dtype, gate=gate,
        scale=vectors.scale, shift=vectors.shift, **options,
    )  # fmt: skip
