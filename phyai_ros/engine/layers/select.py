# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The operator selector: which implementation serves an operator on a shape, dtype and device.

``Operators`` is the reference: plain torch twins on any device and dtype. ``FastOperators`` offers
the library's kernels and ours, and takes what was measured to be the fastest (``tune.Table``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    _triton,
    add_norm,
    attention,
    flow_places,
    flow_step,
    flow_tokens,
    gated_activation,
    gated_linear,
    gemma_expert,
    letterbox,
    patches,
    place_rows,
    prefix_places,
    prefix_rows,
    rope_cache,
    row_linear,
    skinny_linear,
    token_rows,
)
from phyai_ros.engine.kernels.gemma_expert import GemmaExpert, Layer
from phyai_ros.engine.layers import split_library, tune
from phyai_ros.engine.layers.candidates import (
    SINGLE,
    SKINNY,
    blocks_for,
    blocks_of,
    dtype_of,
    gated_for,
    key_of,
    name_of,
    parts_for,
    step_of,
    tile_of,
    whole_for,
)
from phyai_ros.engine.layers.hopper import Hopper

_log = logging.getLogger(__name__)
LIBRARY = "library"
_FEWEST = 8
"""Below so many rows nothing is worth measuring."""
_HALF = (torch.float16, torch.bfloat16)


class Operators:
    """Every operator's definition. Arguments are those of the kernels' twins."""

    add_norm = staticmethod(add_norm.reference)
    linear = staticmethod(skinny_linear.reference)
    branch: Any = staticmethod(skinny_linear.reference)
    """``linear`` whose result the next ``add_norm`` or ``rope_cache`` takes, and nobody else."""
    linear_parts = staticmethod(skinny_linear.reference_parts)
    gated_linear = staticmethod(gated_linear.reference)
    rope_cache = staticmethod(rope_cache.reference)
    row_linear = staticmethod(row_linear.reference)
    flow_step = staticmethod(flow_step.reference)
    token_rows = staticmethod(token_rows.reference)
    attention = staticmethod(attention.reference)
    letterbox = staticmethod(letterbox.reference)
    place_rows = staticmethod(place_rows.reference)
    flow_places = staticmethod(flow_places.reference)
    flow_tokens = staticmethod(flow_tokens.reference)
    patches = staticmethod(patches.reference)
    prefix_rows = staticmethod(prefix_rows.reference)
    prefix_places = staticmethod(prefix_places.reference)

    def gemma_expert(self, layers: Sequence[Layer], **sizes: Any) -> GemmaExpert | None:
        """All of an expert's layers in few launches, where there are kernels for it."""
        return None

    def chosen(self, key: str, candidates: Mapping[str, tune.Candidate]) -> str:
        """The candidate that was measured to be the fastest; LIBRARY is one of them."""
        return LIBRARY


class FastOperators(Operators):
    """Half precision on a CUDA device with Triton.

    dependent: let kernels start before the one in front has ended, where the device can.
    """

    def __init__(self, device: torch.device, *, dependent: bool = True):
        if not _triton.usable(device):
            raise ValueError(f"the kernels need Triton and a CUDA device, not {device}")
        self.table = tune.Table(device)
        self.dependent = dependent and _triton.dependent_launch(device)
        self._tuning = False
        self._hopper = Hopper()

    @contextmanager
    def tuning(self) -> Iterator[None]:
        """Measure shapes that have no choice yet, and keep what was found. Never while a graph is
        captured."""
        before = len(self.table.choices)
        self._tuning = True
        try:
            yield
        finally:
            self._tuning = False
        if len(self.table.choices) != before:
            self.table.save()

    # -- always ours: one pass over the data -----------------------------------------------------
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

    # -- measured --------------------------------------------------------------------------------
    def chosen(self, key: str, candidates: Mapping[str, tune.Candidate]) -> str:
        choice = self.table.choices.get(key)
        if choice is None and self._tuning:
            choice = self.table.measure(key, candidates, 1)
        return LIBRARY if choice is None else choice

    def linear(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str = "",
    ) -> torch.Tensor:
        def run(choice: str, w: torch.Tensor) -> torch.Tensor:
            tile = tile_of(choice)
            if tile is None:
                return _library(x, w, bias, activation)
            return skinny_linear.fused(x, w, bias, activation, tile=tile, dependent=self.dependent)

        key = key_of("linear" + (" " + activation if activation else ""), x, weight)
        return run(self._product(key, run, whole_for(x), x, weight), weight)

    def branch(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> Any:
        """In parts, which the reader adds, where that was measured to be faster, reader included:
        the library splits K of few tiles by itself, and then adds in a pass of its own."""
        splits = split_library.fitting(x, weight)
        if not splits or bias is not None or len(x) <= SKINNY:
            return self.linear(x, weight, bias)
        key = key_of("branch", x, weight)

        def run(choice: str, w: torch.Tensor) -> torch.Tensor:
            found = splits.get(choice)
            return self.linear(x, w) if found is None else split_library.parts(x, w, found)

        choice = self.table.choices.get(key)
        if choice is None and self._tuning:
            count = tune.copies(weight)
            weights = [weight, *(weight.clone() for _ in range(count - 1))]
            stream = x.new_zeros(len(x), len(weight), dtype=torch.float32)

            def read(choice: str, i: int) -> object:
                made = run(choice, weights[i])
                return self.add_norm(stream, made, kind="rms", eps=1.0, dtype=x.dtype)

            candidates = {c: partial(read, c) for c in (LIBRARY, *splits)}
            choice = self.table.measure(key, candidates, count)
        return run(choice or LIBRARY, weight)

    def linear_parts(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        def run(choice: str, w: torch.Tensor) -> torch.Tensor:
            if choice in more:
                return more[choice](x, w, dependent=self.dependent)
            tile = tile_of(choice)
            if tile is None:
                return F.linear(x, w)[None]
            return skinny_linear.fused(x, w, tile=tile, parts=True, dependent=self.dependent)

        key, more = key_of("parts", x, weight, step_of(x)), self._hopper.parts(x, weight)
        choice = self._product(key, run, parts_for(x), x, weight, more=more)
        return more.served(choice, LIBRARY, lambda c: run(c, weight))

    def gated_linear(self, x: torch.Tensor, weight: torch.Tensor, activation: str) -> torch.Tensor:
        def run(choice: str, w: torch.Tensor) -> torch.Tensor:
            if choice in more:
                return more[choice](x, w, activation, dependent=self.dependent)
            tile = tile_of(choice)
            if tile is None:
                return gated_activation.fused(F.linear(x, w), activation, dependent=self.dependent)
            return gated_linear.fused(x, w, activation, tile=tile, dependent=self.dependent)

        key, more = key_of("gated", x, weight, step_of(x)), self._hopper.gated(x, weight)
        choice = self._product(key, run, gated_for(x), x, weight, halves=2, more=more)
        return more.served(choice, LIBRARY, lambda c: run(c, weight))

    def _product(self, key, run, offered, x, weight, halves=1, more=()):
        found = self.table.choices.get(key)
        if found is not None:
            return found
        (m, k), n = x.shape, weight.shape[0] // halves
        ours = m >= _FEWEST and x.dtype in (*_HALF, torch.float32)
        fitting = [t for t in offered if t.fits(n, k)] if ours else []
        if not self._tuning:
            return LIBRARY
        if not fitting and not more:
            return self.table.choices.setdefault(key, LIBRARY)
        count = tune.copies(weight)
        weights = [weight, *(weight.clone() for _ in range(count - 1))]
        names = [LIBRARY, *map(name_of, fitting), *more]
        candidates = {c: (lambda i, c=c: run(c, weights[i])) for c in names}
        return self.table.measure(key, candidates, count)

    def attention(
        self,
        q: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        exists: torch.Tensor | None = None,
        causal: bool = False,
        own_last: bool = False,
        first_alone: bool = False,
        q_bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        def run(choice: str) -> torch.Tensor:
            options: dict[str, Any] = {
                "exists": exists, "causal": causal, "own_last": own_last,
                "first_alone": first_alone, "q_bias": q_bias,
            }  # fmt: skip
            if choice == LIBRARY:
                return attention.reference(q, key, value, **options)
            if choice in more:
                return more[choice](q, key, value, exists=exists, dependent=self.dependent)
            return attention.fused(
                q, key, value, blocks=blocks_of(choice), dependent=self.dependent, **options
            )

        batch, length, heads, d = q.shape[-4:]
        kv, keys = key.shape[1], key.shape[2]
        name = (
            f"attention B{batch} T{length} H{heads}/{kv} d{d} L{-(-keys // 64) * 64} "
            f"{'alone ' if first_alone else ''}"
            f"{'masked ' if exists is not None else ''}{'causal ' if causal else ''}"
            f"{'own ' if own_last else ''}{'parts ' if q.ndim == 5 else ''}{dtype_of(key)}"
        )
        some_unseen = causal or own_last or first_alone
        more = self._hopper.attention(q, key, value, exists, some_unseen=some_unseen)
        choice = self.table.choices.get(name)
        if choice is None:
            choice = LIBRARY
            if self._tuning:
                few = length < _FEWEST
                blocks = SINGLE if few else blocks_for(length * heads // kv, keys, d, batch * kv)
                names = [LIBRARY, *map(name_of, blocks), *more]
                candidates = {c: (lambda i, c=c: run(c)) for c in names}
                choice = self.table.measure(name, candidates, 1)
        return more.served(choice, LIBRARY, run)


def _library(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str
) -> torch.Tensor:
    if bias is not None:
        bias = bias.to(x.dtype)
        if activation == "gelu_tanh" and x.dtype in _HALF:  # cuBLASLt's epilogue is the tanh form
            return torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
    return skinny_linear.activate(F.linear(x, weight, bias), activation)


def select(device: torch.device, dtype: torch.dtype, selector: str = "auto") -> Operators:
    """selector: "reference" forces the twins; "auto" takes our kernels where they can run."""
    if selector == "reference" or dtype not in _HALF or device.type != "cuda":
        return Operators()
    if not _triton.usable(device):
        _log.warning("Triton is not installed: the engine runs without its fused kernels")
        return Operators()
    try:
        _probe(device)
    except Exception as error:  # no C compiler, a device that Triton does not know
        _log.warning("Triton cannot run here, so the fused kernels are left out: %s", error)
        return Operators()
    return FastOperators(device)


def _probe(device: torch.device) -> None:
    """Raises where the smallest kernel does not run."""
    given = [torch.ones(1, device=device) for _ in range(4)]
    flow_step.fused(*given, sign=1.0, rest=0.5, pull=0.0, steps=1)
    torch.cuda.synchronize(device)
