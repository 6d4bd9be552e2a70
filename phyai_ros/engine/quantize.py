# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""FP8 weights (E4M3), and what they multiply: what both mean, in plain torch.

A weight has one scale an output channel, a power of two, under which the channel's largest
magnitude is at least half of E4M3's largest number and no more than it. An activation has one a row
(a token), whose largest magnitude comes to E4M3's largest number. Or an activation is E5M2, which
needs no scale and has a bit less. Sums are float32. A ``QuantizedWeight`` stands where a linear
layer's weight stood: plain torch products with it emulate in float32 what the fused operators
compute (``kernels/fp8_*.py``), on any device. Kernels for one request's few rows in clusters
multiply the same weights, and round the rows in a way of their own, which their twins tell: to E4M3
by a power of two a row and share of the depth (``kernels/dit_product.py``), or to E5M2
(``cluster_product.py``). So they are no nearer to the emulation than to 16 bits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from phyai_ros.engine.types import PolicyError

_log = logging.getLogger(__name__)
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
MOST = 448.0
"""E4M3's largest number."""
LARGEST_E5M2 = 57344.0


class _Emulated:
    """Stands among tensors as an argument of the products below."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.linear:
            return _linear(*args, **(kwargs or {}))
        if function is torch.cat:
            return _cat(*args, **(kwargs or {}))
        return NotImplemented


@dataclass(frozen=True)
class QuantizedRows(_Emulated):
    """values E4M3 [M, K]; scale float32 [M]. Stands for values * scale[:, None]. Of E5M2 there is
    no scale."""

    values: torch.Tensor
    scale: torch.Tensor | None

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of what it stands for."""
        return torch.float32

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        values = self.values.to(wide)
        return (values if self.scale is None else values * self.scale.to(wide)[:, None]).to(dtype)


def quantize_rows(x: torch.Tensor, rows: torch.dtype = E4M3) -> QuantizedRows:
    """x [M, K] -> the nearest E4M3 numbers under one scale a row. A row of zeros has scale 1. Or
    the nearest E5M2 numbers."""
    if rows == E5M2:
        return QuantizedRows(in_e5m2(x), None)
    wide = x.float()
    most = wide.abs().amax(-1)
    scale = torch.where(most == 0, torch.ones_like(most), most / MOST)
    return QuantizedRows((wide / scale[:, None]).to(E4M3), scale)


def in_e5m2(x: torch.Tensor) -> torch.Tensor:
    """x, of any shape -> the nearest E5M2 numbers, ties to even, of no scale; what is more than the
    largest is the largest, infinity too. What is no number stays none. So does every kernel that
    leaves E5M2 rows, and the clusters that make them of halves they read (``cuda/e4m3.cuh``)."""
    return x.float().clamp(-LARGEST_E5M2, LARGEST_E5M2).to(E5M2)


class QuantizedWeight(_Emulated):
    """A linear layer's weight, [N, K]: values E4M3; exponents int8 [N], so that the weight is
    values * 2^exponents[:, None]. Powers of two round nothing, and a pass over a product reads one
    byte a channel.

    dtype: what products with it give. rows: of what it multiplies, which is quantised too: E4M3, a
    scale a row, or E5M2.
    """

    def __init__(
        self,
        values: torch.Tensor,
        exponents: torch.Tensor,
        dtype: torch.dtype,
        rows: torch.dtype = E4M3,
    ) -> None:
        self.values, self.exponents, self.dtype, self.rows = values, exponents, dtype, rows
        self.scale = torch.exp2(exponents.float())

    @classmethod
    def of(
        cls, weight: torch.Tensor, dtype: torch.dtype | None = None, rows: torch.dtype = E4M3
    ) -> QuantizedWeight:
        """dtype: of what products with it give; None: the weight's own, but bfloat16 for float16,
        as the library has it."""
        if dtype is None:
            dtype = torch.bfloat16 if weight.dtype == torch.float16 else weight.dtype
        if weight.is_meta:
            exponents = torch.empty(weight.shape[0], dtype=torch.int8, device="meta")
            return cls(torch.empty_like(weight, dtype=E4M3), exponents, dtype, rows)
        wide = weight.detach().float()
        exponents = torch.frexp(wide.abs().amax(1) / MOST).exponent.clamp(-126, 126)
        values = torch.ldexp(wide, -exponents[:, None]).to(E4M3)
        return cls(values, exponents.to(torch.int8), dtype, rows)

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.exponents.nbytes + self.scale.nbytes

    def __getitem__(self, channels: slice) -> QuantizedWeight:
        taken = self.values[channels], self.exponents[channels]
        return QuantizedWeight(*taken, self.dtype, self.rows)

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return QuantizedRows(self.values, self.scale).dequantize(dtype)


def _linear(
    x: torch.Tensor | QuantizedRows, weight: QuantizedWeight, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The emulated product, [..., N] in x's dtype, or the weight's where x is quantised."""
    if isinstance(x, QuantizedRows):
        dtype, wide = weight.dtype, x.dequantize()
    else:
        dtype, wide = x.dtype, x.double() if x.dtype == torch.float64 else x.float()
        wide = _Rounded.apply(wide.reshape(-1, wide.shape[-1]), weight.rows).view(wide.shape)
    y = F.linear(wide, weight.dequantize(wide.dtype))
    return (y if bias is None else y + bias.to(y.dtype)).to(dtype)


def _cat(weights: Any, dim: int = 0) -> QuantizedWeight:
    """Channels of several weights, one behind the other."""
    kinds = {(w.dtype, w.rows) for w in weights}
    if dim != 0 or len(kinds) != 1:
        raise ValueError("quantised weights of one dtype are joined along their channels alone")
    return QuantizedWeight(
        torch.cat([w.values for w in weights]), torch.cat([w.exponents for w in weights]),
        *kinds.pop(),
    )  # fmt: skip


class _Rounded(torch.autograd.Function):
    """Rows as E4M3, or E5M2, has them. The gradient passes as if nothing were rounded: guidance
    differentiates through the model."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rows: torch.dtype) -> torch.Tensor:
        return quantize_rows(x, rows).dequantize(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


# -- models --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fp8Plan:
    """Which linear layers a family has in FP8, by regular expressions of module names.

    rows: those that are, and whose inputs are quantised too. keeps: every other layer -> why it is
    not in FP8. A layer that none or several of them name is an error. casts: of those that are
    kept, pattern -> the dtype they come to: what runs once a load need not stay in float32. unread:
    layers whose weights inference never reads; they are given up. own: of ``rows``, those whose
    products keep the weight's 16-bit dtype, where others give bfloat16. unscaled: of ``rows``,
    those whose inputs are E5M2, which a kernel can leave that does not see whole rows, where
    others' are E4M3 with a scale a row.
    """

    rows: tuple[str, ...]
    keeps: Mapping[str, str]
    casts: Mapping[str, torch.dtype] = field(default_factory=dict)
    unread: str = r"(?!)"
    own: str = r"(?!)"
    unscaled: str = r"(?!)"

    def kind(self, name: str) -> str:
        """ "rows" or "keeps"."""
        fits = [
            kind
            for kind in ("rows", "keeps")
            if any(re.fullmatch(pattern, name) for pattern in getattr(self, kind))
        ]
        if len(fits) != 1:
            raise PolicyError(f"fp8: layer {name!r} must be in one list of the plan, is in {fits}")
        return fits[0]


def quantize(model: nn.Module, plan: Fp8Plan) -> int:
    """Replace weights in place, layer by layer, so that no second model exists at any moment.
    -> how many layers are in FP8."""
    count = 0
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        kind = plan.kind(name)
        if re.fullmatch(plan.unread, name):
            module.weight = None  # type: ignore[assignment]
            continue
        for pattern, dtype in plan.casts.items():
            if re.fullmatch(pattern, name):
                module.to(dtype)
        if kind == "keeps" or isinstance(module.weight, QuantizedWeight):
            continue
        own = module.weight.dtype if re.fullmatch(plan.own, name) else None
        rows = E5M2 if re.fullmatch(plan.unscaled, name) else E4M3
        made = QuantizedWeight.of(module.weight, own, rows)
        del module.weight
        module.weight = made  # type: ignore[assignment]
        if made.values.is_cuda:
            # Now, or the next layer's smaller weight would hold what this one's took for good.
            torch.cuda.empty_cache()
        count += 1
    return count


def into_fp8(model: object, family: str, device: torch.device) -> None:
    """``quantize`` by the model's own plan (its attribute ``fp8``). On a CPU products are then
    emulated: the reference of the kernels, slower than any other precision. Raises PolicyError
    where the family has no plan or the GPU no FP8 units."""
    plan = getattr(model, "fp8", None)
    if not isinstance(model, nn.Module) or not isinstance(plan, Fp8Plan):
        raise PolicyError(f"precision fp8: {family} has no FP8 form; use bfloat16")
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9):
        name = torch.cuda.get_device_name(device)
        raise PolicyError(
            f"precision fp8: {name} has no FP8 units (compute capability 8.9 and later have); use "
            "bfloat16, or the device cpu, which emulates them"
        )
    if device.type == "cpu":
        _log.warning("precision fp8 is emulated on a CPU: exact for checks, and slow")
    quantize(model, plan)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what was cast, and what nobody reads


def size(model: nn.Module) -> int:
    """Bytes of all weights and buffers."""
    weights = [getattr(module, "weight", None) for module in model.modules()]
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.nbytes for t in tensors) + sum(
        w.nbytes for w in weights if isinstance(w, QuantizedWeight)
    )


def quantized(model: object) -> bool:
    return isinstance(model, nn.Module) and any(
        isinstance(getattr(m, "weight", None), QuantizedWeight) for m in model.modules()
    )


def widened(
    weight: torch.Tensor | QuantizedWeight, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """What a weight [N, K] stands for, as a plain tensor of ``dtype``."""
    return weight.dequantize(dtype) if isinstance(weight, QuantizedWeight) else weight.to(dtype)


def asked(weight: torch.Tensor | QuantizedWeight) -> torch.Tensor:
    """What a pass in front of a product asks for (``kernels/ahead.py``)."""
    return weight.values if isinstance(weight, QuantizedWeight) else weight


def reads(weight: torch.Tensor | QuantizedWeight) -> torch.dtype:
    """What a product with this weight takes: E4M3 or E5M2 rows, or a dtype."""
    return weight.rows if isinstance(weight, QuantizedWeight) else weight.dtype
