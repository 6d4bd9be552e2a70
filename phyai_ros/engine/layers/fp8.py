# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The operators on FP8 weights.

E4M3 rows times an E4M3 weight, by the library, or gated by a kernel of ours (``gated_product``). It
multiplies fastest without scales; raw products leave them to whoever reads the product, and their
sums to the tensor cores, whose registers hold about 14 bits of them: a product's error is 1.0e-3,
that of its rounded inputs 2.2e-2. An operator with an activation feeds a product, so what it gives
is quantised as well, to E5M2 where the reader takes that: the gated kernel leaves it by itself.
Experts in clusters take the weights without these operators (``kernels/gemma_expert.py``,
``kernels/dit_layers.py``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import fp8_norm, fp8_rows
from phyai_ros.engine.kernels.fp8_rows import Product
from phyai_ros.engine.layers.operators import LIBRARY, Operators
from phyai_ros.engine.layers.select import FastOperators, select
from phyai_ros.engine.quantize import E4M3, E5M2, QuantizedRows, QuantizedWeight

Rows = Any
"""A tensor or ``QuantizedRows``."""
Weight = Any
"""A tensor or a ``QuantizedWeight``."""


class Fp8Twins(Operators):
    """The definition: E4M3 rows from the norms, products as ``QuantizedWeight`` emulates them."""

    add_norm = staticmethod(fp8_norm.reference)  # type: ignore[assignment]


class Fp8Operators(FastOperators):
    """On a CUDA device with FP8 units. Weights that are not quantised go their usual way."""

    def __init__(self, device: torch.device, *, dependent: bool = True):
        super().__init__(device, dependent=dependent)
        self._one = torch.ones((), device=device)
        self._biases: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def add_norm(self, x: torch.Tensor, branch: Any, **options: Any) -> Rows:
        if options["dtype"] == E4M3 or isinstance(branch, Product):
            return fp8_norm.fused(x, branch, dependent=self.dependent, **options)
        return super().add_norm(x, branch, **options)

    def linear(
        self, x: Rows, weight: Weight, bias: torch.Tensor | None = None, activation: str = ""
    ) -> Rows:
        if not isinstance(weight, QuantizedWeight):
            return super().linear(x, weight, bias, activation)
        if activation:
            return self._activated(self._raw(x, weight, bias), activation)
        return self._scaled(self._rows(x, weight), weight, bias)

    def branch(self, x: Rows, weight: Weight, bias: torch.Tensor | None = None) -> Any:
        if not isinstance(weight, QuantizedWeight):
            return self.linear(x, weight, bias)
        return self._raw(x, weight, bias)

    def gated_linear(self, x: Rows, weight: Weight, activation: str) -> Rows:
        if not isinstance(weight, QuantizedWeight):
            return super().gated_linear(x, weight, activation)
        return self._gated_rows(self._rows(x, weight), weight, activation)

    def gated_branch(self, x: Rows, gate_up: Weight, down: Weight, activation: str) -> Any:
        if not (isinstance(gate_up, QuantizedWeight) and isinstance(down, QuantizedWeight)):
            return super().gated_branch(x, gate_up, down, activation)
        h = self._gated_rows(self._rows(x, gate_up), gate_up, activation, down.rows)
        return self._raw(h, down, None)

    def linear_parts(self, x: Rows, weight: Weight) -> torch.Tensor:
        if not isinstance(weight, QuantizedWeight):
            return super().linear_parts(x, weight)
        return self._scaled(self._rows(x, weight), weight, None)[None]

    # -- parts -----------------------------------------------------------------------------------
    def _rows(self, x: Rows, weight: QuantizedWeight) -> QuantizedRows:
        if isinstance(x, QuantizedRows):
            return x
        return fp8_rows.fused(x, rows=weight.rows, dependent=self.dependent)

    def _raw(self, x: Rows, weight: QuantizedWeight, bias: torch.Tensor | None) -> Any:
        """A ``Product``: before its scales and its bias; whole where torch cannot multiply it."""
        rows = self._rows(x, weight)
        if not _multiplies(weight):
            return F.linear(rows, weight, bias)  # type: ignore[arg-type]
        values = torch._scaled_mm(
            rows.values, weight.values.t(), scale_a=self._one, scale_b=self._one,
            out_dtype=torch.bfloat16, use_fast_accum=True,
        )  # fmt: skip
        return Product(values, rows.scale, weight.exponents, bias)

    def _gated_rows(
        self,
        x: QuantizedRows,
        weight: QuantizedWeight,
        activation: str,
        rows: torch.dtype = E4M3,
    ) -> QuantizedRows:
        """rows: of what is made."""
        forms = self._hopper.gated_fp8(x.values, weight.values)

        def run(choice: str, _: int = 0) -> QuantizedRows:
            if choice not in forms:
                made = self._raw(x, weight, None)
                return self._activated(made, activation, gated=True, rows=rows)
            options: dict[str, Any] = {"leaves": E5M2} if rows == E5M2 else {}
            y = forms[choice](x, weight, activation, dependent=self.dependent, **options)
            if options:
                return QuantizedRows(y, None)
            return fp8_rows.fused(y, dependent=self.dependent)

        if not forms:
            return run(LIBRARY)
        key = "fp8 gated rows {}x{}x{}".format(x.shape[0], *weight.shape)
        choice = self.chosen(key, {c: partial(run, c) for c in (LIBRARY, *forms)})
        return forms.served(choice, LIBRARY, run)

    def _activated(self, made: Any, activation: str, **options: Any) -> QuantizedRows:
        return fp8_rows.fused(made, None, activation, dependent=self.dependent, **options)

    def _scaled(
        self, x: QuantizedRows, weight: QuantizedWeight, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if not _multiplies(weight):
            return F.linear(x, weight, bias)  # type: ignore[arg-type]
        if x.scale is None:
            made = self._raw(x, weight, None).scaled()
            return (made if bias is None else made + bias).to(weight.dtype)
        y = torch._scaled_mm(
            x.values, weight.values.t(), scale_a=x.scale[:, None], scale_b=weight.scale[None],
            bias=None if bias is None else self._narrow(bias), out_dtype=torch.bfloat16,
        )  # fmt: skip
        return y.to(weight.dtype)  # bfloat16 already, but of weights in their ``own`` dtype

    def _narrow(self, bias: torch.Tensor) -> torch.Tensor:
        """In the products' bfloat16, made when a bias is first seen."""
        if bias.dtype == torch.bfloat16:
            return bias
        known = self._biases.get(id(bias))
        if known is None or known[0] is not bias:
            known = self._biases[id(bias)] = bias, bias.to(torch.bfloat16)
        return known[1]


def select_fp8(device: torch.device, dtype: torch.dtype, selector: str = "auto") -> Operators:
    """``select`` for a model whose weights are quantised; dtype: of what is not."""
    found = select(device, dtype, selector)
    return Fp8Operators(device) if isinstance(found, FastOperators) else Fp8Twins()


def _multiplies(weight: QuantizedWeight) -> bool:
    """torch multiplies E4M3 in multiples of 16."""
    return weight.shape[0] % 16 == 0 == weight.shape[1] % 16
