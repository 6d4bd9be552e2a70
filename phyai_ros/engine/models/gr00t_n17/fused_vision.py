# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""GR00T's image tower from fused operators, for images of one size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.models.gr00t_n17.model import Features
from phyai_ros.engine.models.gr00t_n17.vision import Grid, VisionTower
from phyai_ros.engine.quantize import reads


class FusedVision:
    """The same function as ``VisionTower``. On a GPU the DeepStack mergers' products, which wait
    for their weights, run on a stream of their own beside the tower's, which do not."""

    def __init__(self, tower: VisionTower, operators: Operators):
        self._tower, self._operators = tower, operators
        device = tower.pos_embed.weight.device
        self._aside = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(
        self, patches: torch.Tensor, grids: tuple[Grid, ...], count: int, length: int
    ) -> Features:
        """patches: as ``VisionTower`` takes them, in its dtype, of ``count`` images of ``length``
        patches."""
        tower, ops = self._tower, self._operators
        table, cos, sin = tower._positions(grids)
        cos, sin = (t[:, 0].view(count, length, -1) for t in (cos, sin))
        branch = tower.patch_embed(patches)
        x = torch.empty(table.shape, dtype=torch.float32, device=table.device)
        begin = {"start": table}
        heads = tower.config.heads
        shape = (count, heads, length, tower.config.hidden // heads)
        key, value = (torch.empty(shape, dtype=patches.dtype, device=x.device) for _ in range(2))
        deepstack, held = [], []
        for i, block in enumerate(cast(Any, tower.blocks)):
            attn, mlp = block.attn, block.mlp
            h = ops.layer_norm(x, branch, block.norm1, reads(attn.qkv.weight), **begin)
            begin = {}
            y = ops.branch(h, attn.qkv.weight, attn.qkv.bias)
            q = ops.rope_cache(y, cos, sin, key, value, heads=heads)
            assert q is not None
            y = ops.attention(q, key, value).flatten(0, 1)
            branch = ops.linear(y, attn.proj.weight, attn.proj.bias)
            h = ops.layer_norm(x, branch, block.norm2, reads(mlp.linear_fc1.weight))
            h = ops.linear(h, mlp.linear_fc1.weight, mlp.linear_fc1.bias, "gelu_tanh")
            branch = ops.linear(h, mlp.linear_fc2.weight, mlp.linear_fc2.bias)
            if i in tower.config.deepstack:
                merger = cast(Any, tower.deepstack_merger_list)[tower.config.deepstack.index(i)]
                h, branch = self._normed(merger, x, branch), None  # x has it
                with self._beside():
                    deepstack.append(merger.feed_forward(h).float())  # as they are added
                held.append(h)  # as long as the other stream reads it
        h = self._normed(cast(Any, tower.merger), x, branch)
        made = Features(cast(Any, tower.merger).feed_forward(h), deepstack)
        if self._aside is not None:
            torch.cuda.current_stream().wait_stream(self._aside)
        return made

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """On the other stream, behind what was launched so far."""
        if self._aside is None:
            yield
            return
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            yield

    def _normed(self, merger: Any, x: torch.Tensor, branch: torch.Tensor | None) -> torch.Tensor:
        """What a merger's products take; x takes the branch up. What is one row of the norm lies
        side by side in x."""
        width = len(merger.norm.weight)
        h = self._operators.layer_norm(
            x.view(-1, width), None if branch is None else branch.view(-1, width), merger.norm,
            reads(merger.linear_fc1.weight),
        )  # fmt: skip
        return h.view(-1, merger.width)
