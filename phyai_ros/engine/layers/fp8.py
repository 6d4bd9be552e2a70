# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The operators on FP8 weights.

Many rows: E4M3 rows times an E4M3 weight, by the library. It multiplies fastest without scales;
``raw`` products leave them to whoever reads the product. Few rows: 16-bit rows, the weight alone is
E4M3. An operator with an activation feeds a product, so what it gives is quantised where its own
inputs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import fp8_norm, fp8_rows, fp8_skinny, skinny_linear
from phyai_ros.engine.kernels.fp8_rows import Product
from phyai_ros.engine.kernels.skinny_linear import Tile
from phyai_ros.engine.layers import tune
from phyai_ros.engine.layers.select import LIBRARY, FastOperators, Operators, select
from phyai_ros.engine.quantize import E4M3, QuantizedRows, QuantizedWeight

Rows = Any
"""A tensor or ``QuantizedRows``."""
Weight = Any
"""A tensor or a ``QuantizedWeight``."""
_FEW = 64
"""Rows up to which inputs stay in 16 bit where a weight's plan says so."""

_MANY = 4096
"""Rows from which sums are left to the tensor cores alone, whose float32 registers then hold about
14 bits: a product's error is 1.0e-3 instead of 1.9e-4, that of its rounded inputs 2.2e-2. Below,
sums go on in whole float32 every few terms. A batch of 32 gains 12 of 180 ms, one request 0.4."""

TILES = (
    Tile(64, 128, 1, 4), Tile(64, 256, 1, 3), Tile(64, 64, 1, 4), Tile(64, 128, 2, 4),
    Tile(64, 256, 2, 3), Tile(64, 128, 3, 3), Tile(64, 128, 4, 4), Tile(64, 256, 4, 3),
    Tile(64, 128, 6, 3), Tile(64, 128, 8, 3), Tile(64, 256, 8, 2), Tile(64, 128, 12, 3),
)  # fmt: skip


class Fp8Twins(Operators):
    """The definition: E4M3 rows from the norms, products as ``QuantizedWeight`` emulates them."""

    add_norm = staticmethod(fp8_norm.reference)  # type: ignore[assignment]


class Fp8Operators(FastOperators):
    """On a CUDA device with FP8 units. Weights that are not quantised go their usual way."""

    def __init__(self, device: torch.device, *, dependent: bool = True):
        super().__init__(device, dependent=dependent)
        self._one = torch.ones((), device=device)

    def add_norm(self, x: torch.Tensor, branch: Any, **options: Any) -> Rows:
        if options["dtype"] == E4M3 or isinstance(branch, Product):
            return fp8_norm.fused(x, branch, dependent=self.dependent, **options)
        return super().add_norm(x, branch, **options)

    def linear(
        self, x: Rows, weight: Weight, bias: torch.Tensor | None = None, activation: str = ""
    ) -> Rows:
        if not isinstance(weight, QuantizedWeight):
            return super().linear(x, weight, bias, activation)
        if _few(x, weight):
            return self._few_rows(x, weight, bias, activation)
        if activation:
            return self._activated(self._raw(x, weight, bias), activation)
        return self._scaled(self._rows(x), weight, bias)

    def branch(self, x: Rows, weight: Weight, bias: torch.Tensor | None = None) -> Any:
        if not isinstance(weight, QuantizedWeight) or _few(x, weight):
            return self.linear(x, weight, bias)
        return self._raw(x, weight, bias)

    def gated_linear(self, x: Rows, weight: Weight, activation: str) -> Rows:
        if not isinstance(weight, QuantizedWeight):
            return super().gated_linear(x, weight, activation)
        if not _few(x, weight):
            return self._activated(self._raw(x, weight, None), activation, gated=True)

        def run(choice: str, w: QuantizedWeight) -> torch.Tensor:
            if choice == LIBRARY:
                return super(Fp8Operators, self).gated_linear(x, w.dequantize(x.dtype), activation)
            return fp8_skinny.fused(
                x, w, None, activation, tile=_tile(choice), gated=True, dependent=self.dependent
            )

        n, k = weight.shape
        tiles = [t for t in TILES if t.splits == 1 and t.fits(n // 2, k)]
        return run(self._best("gated", x, weight, tiles, run), weight)

    def linear_parts(self, x: Rows, weight: Weight) -> torch.Tensor:
        if not isinstance(weight, QuantizedWeight):
            return super().linear_parts(x, weight)
        if not _few(x, weight):
            return self._scaled(self._rows(x), weight, None)[None]

        def run(choice: str, w: QuantizedWeight) -> torch.Tensor:
            if choice == LIBRARY:
                return F.linear(x, w.dequantize(x.dtype))[None]
            return fp8_skinny.fused(x, w, tile=_tile(choice), parts=True, dependent=self.dependent)

        tiles = [t for t in TILES if t.fits(*weight.shape)]
        return run(self._best("parts", x, weight, tiles, run), weight)

    # -- few rows --------------------------------------------------------------------------------
    def _few_rows(
        self, x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None, activation: str
    ) -> torch.Tensor:
        def run(choice: str, w: QuantizedWeight) -> torch.Tensor:
            if choice == LIBRARY:
                return skinny_linear.reference(x, w.dequantize(x.dtype), bias, activation)
            return fp8_skinny.fused(
                x, w, bias, activation, tile=_tile(choice), dependent=self.dependent
            )

        tiles = [t for t in TILES if t.splits == 1 and t.fits(*weight.shape)]
        kind = f"linear {activation}" if activation else "linear"
        return run(self._best(kind, x, weight, tiles, run), weight)

    def _best(
        self,
        kind: str,
        x: torch.Tensor,
        weight: QuantizedWeight,
        tiles: Sequence[Tile],
        run: Callable[[str, QuantizedWeight], object],
    ) -> str:
        shape = f"{x.shape[0]}x{weight.shape[0]}x{weight.shape[1]}"
        key = f"fp8 {kind} {shape} {str(x.dtype).removeprefix('torch.')}"
        found = self.table.choices.get(key)
        if found is not None or not self._tuning:
            return found or LIBRARY
        names = [LIBRARY, *("x".join(map(str, vars(t).values())) for t in tiles)]
        count = tune.copies(weight.values)
        weights = [weight, *(weight.clone() for _ in range(count - 1))]
        candidates = {c: (lambda i, c=c: run(c, weights[i])) for c in names}
        return self.table.measure(key, candidates, count)

    # -- many rows -------------------------------------------------------------------------------
    def _rows(self, x: Rows) -> QuantizedRows:
        return x if isinstance(x, QuantizedRows) else fp8_rows.fused(x, dependent=self.dependent)

    def _raw(self, x: Rows, weight: QuantizedWeight, bias: torch.Tensor | None) -> Any:
        """The product before its scales and its bias; whole where torch cannot multiply it so."""
        rows = self._rows(x)
        if not _multiplies(weight):
            return F.linear(rows, weight, bias)  # type: ignore[arg-type]
        values = torch._scaled_mm(
            rows.values, weight.values.t(), scale_a=self._one, scale_b=self._one,
            out_dtype=torch.bfloat16, use_fast_accum=rows.shape[0] >= _MANY,
        )  # fmt: skip
        return Product(values, rows.scale, weight.exponents, bias)

    def _activated(self, made: Any, activation: str, gated: bool = False) -> QuantizedRows:
        return fp8_rows.fused(made, None, activation, gated=gated, dependent=self.dependent)

    def _scaled(
        self, x: QuantizedRows, weight: QuantizedWeight, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if not _multiplies(weight):
            return F.linear(x, weight, bias)  # type: ignore[arg-type]
        y = torch._scaled_mm(
            x.values, weight.values.t(), scale_a=x.scale[:, None], scale_b=weight.scale[None],
            bias=None if bias is None else bias.to(torch.bfloat16), out_dtype=torch.bfloat16,
        )  # fmt: skip
        return y.to(weight.dtype)  # bfloat16 already, but for tests' weights in float32


def select_fp8(device: torch.device, dtype: torch.dtype, selector: str = "auto") -> Operators:
    """``select`` for a model whose weights are quantised; dtype: of what is not."""
    found = select(device, dtype, selector)
    return Fp8Operators(device) if isinstance(found, FastOperators) else Fp8Twins()


def _few(x: Rows, weight: QuantizedWeight) -> bool:
    return not weight.rows and isinstance(x, torch.Tensor) and x.shape[0] <= _FEW


def _multiplies(weight: QuantizedWeight) -> bool:
    """torch multiplies E4M3 in multiples of 16."""
    return weight.shape[0] % 16 == 0 == weight.shape[1] % 16


def _tile(choice: str) -> Tile:
    return Tile(*map(int, choice.split("x")))
