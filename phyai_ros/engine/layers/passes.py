# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Operators that are always ours where kernels run: one pass over the data, nothing to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from phyai_ros.engine.kernels import (
    add_norm,
    flow_places,
    flow_step,
    flow_tokens,
    gemma_expert,
    letterbox,
    patches,
    place_rows,
    prefix_places,
    prefix_rows,
    rope_cache,
    row_linear,
    token_rows,
)
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer
from phyai_ros.engine.layers.operators import Operators


class Passes(Operators):
    """On a CUDA device with Triton. dependent: let kernels start before the one in front has
    ended."""

    dependent: bool

    @contextmanager
    def waiting(self) -> Iterator[None]:
        before, self.dependent = self.dependent, False
        try:
            yield
        finally:
            self.dependent = before

    def add_norm(self, x, branch, **options):
        return add_norm.fused(x, branch, dependent=self.dependent, **options)

    def rope_cache(self, y, cos, sin, key, value, **options):
        return rope_cache.fused(y, cos, sin, key, value, dependent=self.dependent, **options)

    def flow_step(self, x, v, target, weights, **options):
        return flow_step.fused(x, v, target, weights, dependent=self.dependent, **options)

    def token_rows(self, first, tokens, places=None):
        return token_rows.fused(first, tokens, places, dependent=self.dependent)

    def letterbox(self, pixels, rows, columns, **options):
        return letterbox.fused(pixels, rows, columns, dependent=self.dependent, **options)

    def place_rows(self, *tensors):
        return place_rows.fused(*tensors, dependent=self.dependent)

    def flow_places(self, images, words, frequency, **options):
        return flow_places.fused(images, words, frequency, dependent=self.dependent, **options)

    def flow_tokens(self, images, table, tokens, **options):
        return flow_tokens.fused(images, table, tokens, dependent=self.dependent, **options)

    def patches(self, images, size, dtype, **options):
        return patches.fused(images, size, dtype, dependent=self.dependent, **options)

    def prefix_rows(self, images, table, tokens, state, **options):
        return prefix_rows.fused(images, table, tokens, state, dependent=self.dependent, **options)

    def prefix_places(self, images, words, period, **options):
        return prefix_places.fused(images, words, period, dependent=self.dependent, **options)

    def row_linear(self, x, weight, bias=None, activation=""):
        if not row_linear.fits(x, weight):
            return row_linear.reference(x, weight, bias, activation)
        return row_linear.fused(x, weight, bias, activation, dependent=self.dependent)

    def gemma_expert(self, layers: Sequence[Layer], **sizes: Any) -> GemmaExpert | None:
        if not gemma_expert.fits(layers, sizes["tokens"], sizes["heads"]):
            return None
        return GemmaExpert(layers, dependent=self.dependent, **sizes)
