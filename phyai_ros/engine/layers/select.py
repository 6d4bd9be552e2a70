# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The operator selector: which implementation serves an operator on a shape, dtype and device.

``Operators`` is the reference. ``FastOperators`` offers the library's kernels and ours, and takes
what was measured to be the fastest (``tune.Table``); what is one pass over the data is ours
(``Passes``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import (
    _triton,
    attention,
    flow_step,
    gated_activation,
    gated_linear,
    skinny_linear,
)
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
from phyai_ros.engine.layers.operators import LIBRARY, Operators
from phyai_ros.engine.layers.passes import Passes

_log = logging.getLogger(__name__)
_FEWEST = 8
"""Below so many rows nothing is worth measuring."""
_HALF = (torch.float16, torch.bfloat16)


class FastOperators(Passes):
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
        before = len(self.table.measured)
        self._tuning = True
        try:
            yield
        finally:
            self._tuning = False
        if len(self.table.measured) != before:
            self.table.save()

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
