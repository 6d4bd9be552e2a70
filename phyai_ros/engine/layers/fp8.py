# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The operators on FP8 weights: which product serves a shape, and what its neighbours take over.

Many rows: E4M3 rows times an E4M3 weight. The library multiplies fastest without scales; whoever
reads the product then applies them. Few rows: 16-bit rows, the weight alone is E4M3. An operator
with an activation feeds a product, so what it gives is quantised where its weight's inputs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import fp8_linear, fp8_norm, fp8_rows, fp8_skinny, skinny_linear
from phyai_ros.engine.kernels.fp8_linear import Fp8Tile
from phyai_ros.engine.kernels.fp8_rows import Product
from phyai_ros.engine.kernels.gemma_stack import GemmaStack, Layer
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

TILES = (
    Fp8Tile(128, 128, 128, 8, 4, 8), Fp8Tile(128, 256, 128, 8, 3, 8),
    Fp8Tile(64, 128, 128, 8, 5, 4),
    Fp8Tile(64, 64, 128, 8, 6, 4), Fp8Tile(64, 256, 128, 8, 4, 4), Fp8Tile(128, 128, 128, 8, 4, 4),
)  # fmt: skip
SKINNY = (
    Tile(64, 128, 1, 4), Tile(64, 256, 1, 3), Tile(64, 64, 1, 4), Tile(64, 128, 2, 4),
    Tile(64, 256, 2, 3), Tile(64, 128, 3, 3), Tile(64, 64, 3, 4), Tile(64, 128, 4, 4),
    Tile(64, 256, 4, 3), Tile(64, 128, 4, 2), Tile(64, 64, 5, 3), Tile(64, 128, 6, 3),
    Tile(64, 128, 8, 3), Tile(64, 256, 8, 2), Tile(64, 128, 12, 3), Tile(128, 128, 4, 4, 8),
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
        rows = self._rows(x)
        if activation:
            return self._activated(rows, weight, bias, activation)
        return self._many(rows, weight, bias)

    def branch(self, x: Rows, weight: Weight, bias: torch.Tensor | None = None) -> Any:
        if not isinstance(weight, QuantizedWeight) or _few(x, weight):
            return self.linear(x, weight, bias)
        return self._many(self._rows(x), weight, bias, raw=True)

    def linear_parts(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        if not isinstance(weight, QuantizedWeight):
            return super().linear_parts(x, weight)
        if not _few(x, weight):
            return self._many(self._rows(x), weight, None)[None]

        def run(choice: str, w: QuantizedWeight) -> torch.Tensor:
            if choice == LIBRARY:
                return F.linear(x, w.dequantize(x.dtype))[None]
            return fp8_skinny.fused(x, w, tile=_tile(choice), parts=True, dependent=self.dependent)

        tiles = [t for t in SKINNY if t.fits(*weight.shape)]
        return run(self._best("parts", x, weight, tiles, run), weight)

    def gated_linear(self, x: Rows, weight: Weight, activation: str) -> Rows:
        if not isinstance(weight, QuantizedWeight):
            return super().gated_linear(x, weight, activation)
        if not _few(x, weight):
            return self._activated(self._rows(x), weight, None, activation, gated=True)

        def run(choice: str, w: QuantizedWeight) -> torch.Tensor:
            if choice == LIBRARY:
                return super(Fp8Operators, self).gated_linear(x, w.dequantize(x.dtype), activation)
            return fp8_skinny.fused(
                x, w, None, activation, tile=_tile(choice), gated=True, dependent=self.dependent
            )

        n, k = weight.shape
        tiles = [t for t in SKINNY if t.splits == 1 and t.fits(n // 2, k)]
        return run(self._best("gated", x, weight, tiles, run), weight)

    def gemma_stack(self, layers: Sequence[Layer], tokens: int) -> GemmaStack | None:
        if any(isinstance(layer.qkv, QuantizedWeight) for layer in layers):
            return None
        return super().gemma_stack(layers, tokens)

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

        tiles = [t for t in SKINNY if t.splits == 1 and t.fits(*weight.shape)]
        kind = f"linear {activation}" if activation else "linear"
        return run(self._best(kind, x, weight, tiles, run), weight)

    # -- many rows -------------------------------------------------------------------------------
    def _rows(self, x: Rows) -> QuantizedRows:
        return x if isinstance(x, QuantizedRows) else fp8_rows.fused(x, dependent=self.dependent)

    def _many(
        self,
        x: QuantizedRows,
        weight: QuantizedWeight,
        bias: torch.Tensor | None,
        raw: bool = False,
    ) -> Any:
        """raw: the product may come before its scales, as a ``Product``."""

        def run(choice: str, w: QuantizedWeight) -> Any:
            if choice == LIBRARY:
                return fp8_linear.reference(x, w, bias)
            if choice == "unscaled":
                return Product(self._unscaled(x, w), x.scale, w.scale, bias)
            if choice == "rowwise":
                return _rowwise(x, w, bias)
            return fp8_linear.fused(x, w, bias, tile=_fp8_tile(choice), dependent=self.dependent)

        names = _library_names(x, weight, ("unscaled", "rowwise") if raw else ("rowwise",))
        return run(self._best("branch" if raw else "rows", x, weight, TILES, run, names), weight)

    def _unscaled(self, x: QuantizedRows, weight: QuantizedWeight) -> torch.Tensor:
        one = self._one
        return torch._scaled_mm(
            x.values, weight.values.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )

    def _activated(
        self,
        x: QuantizedRows,
        weight: QuantizedWeight,
        bias: torch.Tensor | None,
        activation: str,
        gated: bool = False,
    ) -> QuantizedRows:
        def run(choice: str, w: QuantizedWeight) -> QuantizedRows:
            if choice in (LIBRARY, "unscaled"):
                made = (
                    Product(self._unscaled(x, w), x.scale, w.scale, None)
                    if choice == "unscaled"
                    else fp8_linear.reference(x, w, None)
                )
                return fp8_rows.fused(made, bias, activation, gated=gated, dependent=self.dependent)
            y = fp8_linear.fused(
                x, w, bias, activation, gated=gated, tile=_fp8_tile(choice),
                dependent=self.dependent,
            )  # fmt: skip
            return fp8_rows.fused(y, dependent=self.dependent)

        names = _library_names(x, weight, ("unscaled",))
        kind = f"{'gated' if gated else 'rows'} {activation}"
        tiles = [
            Fp8Tile(t.rows, t.columns // (2 if gated else 1), *list(vars(t).values())[2:])
            for t in TILES
            if not gated or weight.shape[0] % t.columns == 0
        ]
        return run(self._best(kind, x, weight, tiles, run, names), weight)

    def _best(
        self,
        kind: str,
        x: Rows,
        weight: QuantizedWeight,
        tiles: Sequence[Tile | Fp8Tile],
        run: Callable[[str, QuantizedWeight], object],
        names: Sequence[str] = (LIBRARY,),
    ) -> str:
        inputs = "e4m3" if isinstance(x, QuantizedRows) else str(x.dtype).removeprefix("torch.")
        key = f"fp8 {kind} {x.shape[0]}x{weight.shape[0]}x{weight.shape[1]} {inputs}"
        found = self.table.choices.get(key)
        if found is not None:
            return found
        if not self._tuning:
            return names[0]
        if weight.shape[1] % 16:
            tiles = ()
        names = [*names, *("x".join(map(str, vars(t).values())) for t in tiles)]
        count = tune.copies(weight.values)
        weights = [weight, *(weight.clone() for _ in range(count - 1))]
        candidates = {c: (lambda i, c=c: run(c, weights[i])) for c in names}
        return self.table.measure(key, candidates, count)


def select_fp8(device: torch.device, dtype: torch.dtype, selector: str = "auto") -> Operators:
    """``select`` for a model whose weights are quantised; dtype: of what is not."""
    found = select(device, dtype, selector)
    return Fp8Operators(device) if isinstance(found, FastOperators) else Fp8Twins()


def _few(x: Rows, weight: QuantizedWeight) -> bool:
    return not weight.rows and isinstance(x, torch.Tensor) and x.shape[0] <= _FEW


def _library_names(
    x: QuantizedRows, weight: QuantizedWeight, names: Sequence[str]
) -> tuple[str, ...]:
    """The first is what an unmeasured shape gets. torch multiplies E4M3 in multiples of 16."""
    return tuple(names) if weight.shape[0] % 16 == 0 == weight.shape[1] % 16 else (LIBRARY,)


def _rowwise(x: QuantizedRows, weight: QuantizedWeight, bias: torch.Tensor | None) -> torch.Tensor:
    y = torch._scaled_mm(
        x.values, weight.values.t(), scale_a=x.scale[:, None], scale_b=weight.scale[None],
        bias=None if bias is None else bias.to(torch.bfloat16), out_dtype=torch.bfloat16,
    )  # fmt: skip
    return y if weight.dtype == torch.bfloat16 else y.to(weight.dtype)


def _tile(choice: str) -> Tile:
    return Tile(*map(int, choice.split("x")))


def _fp8_tile(choice: str) -> Fp8Tile:
    return Fp8Tile(*map(int, choice.split("x")))
