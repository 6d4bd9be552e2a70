# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""activation(x gate^T) * (x up^T) of many rows in one launch (``cuda/gated_product.cu``), on
Hopper.

The weight is taken as it is, gates in front of ups. 16 bits, or E4M3 with a factor a row and a
power of two a channel.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint, c_uint64
from dataclasses import dataclass
from functools import lru_cache

import torch

from phyai_ros.engine.kernels import _cuda, gated_activation
from phyai_ros.engine.kernels._tiles import evens_map, lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.quantize import E4M3, E5M2, QuantizedRows, QuantizedWeight

_FILES = ("hopper.cuh", "warpgroups.cuh", "e4m3.cuh", "gated_product.cu")
_THREADS, _READERS, _LINE, _MOST_COLUMNS, _MOST_PLACES = 384, 2, 128, 208, 6
_MOST_SCALED = 200
"""Columns of E4M3 where 16 bits are left: beside the sums of 208 of them the scales would spill."""
_CHANNELS = 64 * _READERS
"""Of a block: as many rows of gates, and of ups."""
_BARRIERS = 16 * _MOST_PLACES
FEWEST_ROWS = 128
"""Below, tiles of the library's are as full."""


@dataclass(frozen=True)
class Form:
    """cluster: blocks that bring rows of x for each other (1 or 2); lag: steps of the depth, 128
    bytes each, that the second warpgroup is behind the first."""

    cluster: int = 2
    lag: int = 1


class _Given(ctypes.Structure):
    _fields_ = (
        *((n, _cuda.TensorMap) for n in ("weight", "x", "x_rest", "out")),
        ("factors", c_uint64), ("exponents", c_uint64),
        *((n, c_uint) for n in ("rows", "channels", "steps", "across", "tiles")),
    )  # fmt: skip


@dataclass(frozen=True)
class _Tile:
    """columns: rows of x. bytes: of a number of the result."""

    columns: int
    bytes: int = 2

    @property
    def place(self) -> int:
        """Bytes of a step of the depth."""
        return (2 * _CHANNELS + self.columns) * _LINE

    @property
    def places(self) -> int:
        """Steps that shared memory holds beside the results."""
        return min(_MOST_PLACES, (_cuda.MOST_SHARED - self._rest) // self.place)

    @property
    def shared(self) -> int:
        return self.places * self.place + self._rest

    @property
    def _rest(self) -> int:
        return self.columns * _CHANNELS * self.bytes + _BARRIERS

    def first(self, form: Form) -> int:
        """Rows of x that the first block of a cluster brings: whole eights, as swizzles repeat."""
        return self.columns if form.cluster == 1 else -(-self.columns // 16) * 8


def columns_of(rows: int, most: int = _MOST_COLUMNS) -> tuple[int, int]:
    """Rows of x -> those of a tile, in eights, and how many tiles: as few as sums have room for,
    and as even as they come."""
    across = -(-rows // most)
    return -(-rows // across // 8) * 8, across


def fits(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the kernel was written for x [M, K], weight [2 N, K] (gate, then up)."""
    (m, k), rows, step = x.shape, weight.shape[0], _LINE // x.element_size()
    return (
        m >= FEWEST_ROWS
        and k % step == 0
        and k >= step * _MOST_PLACES
        and rows % 512 == 0
        and x.dtype == weight.dtype
        and x.dtype in (torch.float16, torch.bfloat16, E4M3)
        and x.is_contiguous()
        and weight.is_contiguous()
        and _cuda.is_hopper(x.device)
    )


@lru_cache(maxsize=32)
def _kernel(
    form: Form, tile: _Tile, activation: str, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    eight = dtype == E4M3
    return _cuda.Kernel(
        "gated_product", _FILES,
        {
            "COLUMNS": tile.columns, "FIRST": tile.first(form), "PLACES": tile.places,
            "CLUSTER": form.cluster, "LAG": form.lag, "SILU": int(activation == "silu"),
            "FP8": int(eight), "BYTES": int(tile.bytes == 1), "BF16": int(dtype != torch.float16),
            "PDL": int(dependent),
        },
        cluster=form.cluster, threads=_THREADS, shared=tile.shared,
        products=(product(tile.columns, a_shared=True, fp8=eight),),
    )  # fmt: skip


def fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    activation: str,
    *,
    form: Form,
    dependent: bool = False,
) -> torch.Tensor:
    """x [M, K], weight [2 N, K] (gate, then up) -> activation(gate) * up [M, N] in x's dtype; sums,
    activation and product in float32, rounded once. activation: gelu_tanh or silu. The twin is
    ``gated_linear.reference``, but for roundings that this kernel does not make."""
    return _launch(x, weight, activation, form, dependent)


def fused_fp8(
    x: QuantizedRows,
    weight: QuantizedWeight,
    activation: str,
    *,
    form: Form,
    leaves: torch.dtype = torch.bfloat16,
    dependent: bool = False,
) -> torch.Tensor:
    """``fused`` of E4M3 numbers, whose sums are left to the tensor cores. leaves: bfloat16 or E5M2,
    of the result [M, N]. The twin is ``reference_fp8``, rounded so."""
    return _launch(
        x.values, weight.values, activation, form, dependent, x.scale, weight.exponents, leaves
    )


def reference_fp8(x: QuantizedRows, weight: QuantizedWeight, activation: str) -> torch.Tensor:
    """float64 [M, N]."""
    wide = x.dequantize(torch.float64) @ weight.dequantize(torch.float64).t()
    return gated_activation.reference(wide, activation)


def _launch(
    x: torch.Tensor, weight: torch.Tensor, activation: str, form: Form, dependent: bool,
    factors: torch.Tensor | None = None, exponents: torch.Tensor | None = None,
    leaves: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    if not fits(x, weight) or activation not in ("gelu_tanh", "silu"):
        raise ValueError(
            f"{activation} of {tuple(x.shape)} and {tuple(weight.shape)} {x.dtype} on {x.device}"
        )
    (m, k), n, eight = x.shape, weight.shape[0] // 2, x.dtype == E4M3
    columns, across = columns_of(m, _MOST_SCALED if eight and leaves != E5M2 else _MOST_COLUMNS)
    out = torch.empty(m, n, dtype=leaves or x.dtype, device=x.device)
    tile = _Tile(columns, out.element_size())
    first, brings = tile.first(form), evens_map if tile.bytes == 1 else lines_map
    tiles = n // (_CHANNELS * form.cluster) * across
    given = _Given(
        brings(weight, _CHANNELS), lines_map(x, first),
        lines_map(x, columns - first or first), lines_map(out, columns, 64 * tile.bytes),
        _cuda.address(factors), _cuda.address(exponents), m, n,
        k * x.element_size() // _LINE, across, tiles,
    )  # fmt: skip
    kernel = _kernel(form, tile, activation, x.dtype, dependent, x.get_device())
    units = torch.cuda.get_device_properties(x.device).multi_processor_count
    clusters = min(tiles, units // form.cluster)
    kernel.launch(clusters * form.cluster, given, dependent=dependent)
    return out
