# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The products of a diffusion transformer's layer for few rows (``cuda/dit_product.cu``), on
Hopper, and its rows in the orders in which they travel between them (``cuda/dit.cuh``)."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_uint, c_uint64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.e4m3 import narrowed, ordered
from phyai_ros.engine.kernels.fragments import (
    ROWS,
    from_fragments,
    from_groups,
    into_fragments,
    into_groups,
)
from phyai_ros.engine.kernels.joined import Shares
from phyai_ros.engine.kernels.skinny_linear import activate
from phyai_ros.engine.quantize import QuantizedWeight, widened

Weight = Any
"""A tensor [n, k], 16 bit and contiguous, or a ``QuantizedWeight``."""
_DEEPEST = 512
"""Of a warpgroup's share of the depth: its operands are in registers."""


@dataclass(frozen=True)
class Form(Shares):
    """What is compiled into a kernel.

    n, k: of W [n, k]. blocks of a cluster, of ``groups`` warpgroups each, share the depth of
    ``columns`` columns. part: columns of a statistic of what is normed in front, 0 where nothing
    is. residual: x += y, and x as the next norm's product takes it; else y itself, as fragments or,
    ``row_major``, [rows, n]. activation: "" or "gelu_tanh". fp8: W is E4M3, and what it multiplies
    becomes it in the kernel's registers. registers: of a thread, at most: a block begins beside one
    of the kernel in front only where both have room (65536 of a multiprocessor's; 227 KiB of shared
    memory), and its weights come while that one works. most: blocks of these on one multiprocessor,
    0: as many as there is room for.
    """

    n: int
    k: int
    blocks: int
    groups: int
    columns: int
    part: int = 0
    residual: bool = False
    activation: str = ""
    row_major: bool = False
    registers: int = 224
    fp8: bool = False
    most: int = 0

    @property
    def own(self) -> int:
        """Columns that a warpgroup finishes: those of a statistic of x."""
        return self.columns // self.ranks

    def fits(self) -> bool:
        return (
            self.whole()
            and self.n % self.columns == 0
            and self.columns % (8 * self.ranks) == 0
            and self.columns <= 256
            and self.depth <= _DEEPEST
            and (self.part == 0 or self.depth % self.part == 0)
            and self.activation in ("", "gelu_tanh")
            and self.shared() <= _cuda.MOST_SHARED
            and self.groups * 128 * self.registers <= _cuda.REGISTERS
        )

    def shared(self) -> int:
        """Bytes of shared memory a block takes."""
        weights = (1 if self.fp8 else 2) * self.depth  # bytes of a column
        share = self.columns * weights + (self.blocks - 1) * self.own * 256
        bars = 8 + self.groups * weights // 128 * 8
        return self.claimed(self.groups * share + (self.ranks * 512 if self.part else 0) + bars)


class Stream(NamedTuple):
    """A residual stream [<= 64, width] and the same as the product behind a layer norm takes it.

    x: float32 groups. scaled: 16 bit, fragments of x times what the norm multiplies by.
    statistics: float32 [width / part, 32, 4], of every ``part`` columns of two rows 8 apart: their
    means, then their sums of squared deviations.
    """

    x: torch.Tensor
    scaled: torch.Tensor
    statistics: torch.Tensor

    @staticmethod
    def empty(width: int, part: int, dtype: torch.dtype, device: torch.device) -> Stream:
        return Stream(
            torch.zeros(width // 8, 4, 32, 4, device=device),
            torch.zeros(width // 16, 4, 32, 8, dtype=dtype, device=device),
            torch.zeros(width // part, 32, 4, device=device),
        )


class _Given(ctypes.Structure):
    _fields_ = (
        ("weights", _cuda.TensorMap),
        *((n, c_uint64) for n in (
            "source", "statistics", "sums", "bias", "channels", "out", "x", "scale", "told",
        )),
        ("rows", c_uint), ("eps", c_float),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _kernel(form: Form, dtype: torch.dtype, dependent: bool, device: int) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "dit_product", ("hopper.cuh", "join.cuh", "dit.cuh", "e4m3.cuh", "dit_product.cu"),
        {
            "N": form.n, "K": form.k, "BLOCKS": form.blocks, "GROUPS": form.groups,
            "COLUMNS": form.columns, "PAIRED": 0, "PART": form.part, "RESIDUAL": int(form.residual),
            "GELU": int(form.activation == "gelu_tanh"), "ROW_MAJOR": int(form.row_major),
            "FP8": int(form.fp8), "REGISTERS": form.registers,
            "BF16": int(dtype == torch.bfloat16), "PDL": int(dependent),
        },
        cluster=form.blocks, threads=128 * form.groups, shared=form.shared(),
        products=(product(form.columns, fp8=form.fp8),),
    )  # fmt: skip


class DitProduct:
    """One weight [n, k] and its bias [n], as one form's kernel takes them. A 16-bit weight stays
    where it is, of an E4M3 one there is a copy (``ordered``).

    dependent: launches start while the kernel in front ends, which may write the source, its
    statistics and x, and nothing else.
    """

    def __init__(self, weight: Weight, bias: torch.Tensor, form: Form, *, dependent: bool = True):
        fp8 = isinstance(weight, QuantizedWeight)
        if not form.fits() or tuple(weight.shape) != (form.n, form.k) or form.fp8 != fp8:
            raise ValueError(f"{form} does not fit a weight of {tuple(weight.shape)}, fp8 {fp8}")
        self.weight, self.bias, self.form = weight, bias.float().contiguous(), form
        self._dependent = dependent
        self._held: torch.Tensor
        self._channels: torch.Tensor | None
        if isinstance(weight, QuantizedWeight):
            self._held, self._channels = ordered(weight.values), weight.scale
        else:
            self._held, self._channels = weight, None
        self._map = lines_map(self._held, form.columns)
        self._kernel = _kernel(form, weight.dtype, dependent, self._held.get_device())
        self._blocks = form.n // form.columns * form.blocks

    def __call__(
        self,
        source: torch.Tensor,
        *,
        rows: int,
        out: torch.Tensor | None = None,
        statistics: torch.Tensor | None = None,
        sums: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        eps: float = 0.0,
        stream: Stream | None = None,
        scale: torch.Tensor | None = None,
    ) -> None:
        """source: fragments of k columns. In front of a norm they are ``Stream.scaled``, with its
        statistics and ``sums_of`` the weight; the norm's shift is part of ``bias`` [n] float32,
        which takes the place of the weight's own. out: as the form says. stream: changed in place
        by a residual form; scale [n] float32, of the norm behind it, None for ones."""
        x, scaled, told = stream or (None, out, None)
        bias = self.bias if bias is None else bias
        places = (source, statistics, sums, bias, self._channels, scaled, x, scale, told)
        given = _Given(self._map, *map(_cuda.address, places), rows, eps)
        self._kernel.launch(self._blocks, given, dependent=self._dependent)


def through(weight: Weight, bias: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """A bias [n] and what a norm's shift [k] adds to the product with weight [n, k]; float32."""
    return bias.float() + widened(weight) @ shift.float()


def sums_of(weight: Weight, scale: torch.Tensor | None) -> torch.Tensor:
    """scale W^T summed over the depth, float32 [n]: what a mean of one adds to a product that a
    layer norm stands in front of."""
    ones = torch.ones(weight.shape[1], device=weight.device) if scale is None else scale.float()
    return widened(weight) @ ones


class _RowsGiven(ctypes.Structure):
    _fields_ = (
        *((n, c_uint64) for n in ("rows_in", "scale", "x", "scaled", "statistics")),
        ("rows", c_uint),
    )  # fmt: skip


@lru_cache(maxsize=16)
def _rows_kernel(
    width: int, part: int, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device
    return _cuda.Kernel(
        "dit_rows", ("hopper.cuh", "dit.cuh", "dit_rows.cu"),
        {
            "N": width, "OWN": part // 8, "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent),
        },
        cluster=1, threads=128, shared=0,
    )  # fmt: skip


def begin(rows: torch.Tensor, scale: torch.Tensor, stream: Stream, *, dependent: bool) -> None:
    """rows [<= 64, width] float32, contiguous, into ``stream``; scale [width] float32."""
    count, width = rows.shape
    parts = len(stream.statistics)
    kernel = _rows_kernel(width, width // parts, stream.scaled.dtype, dependent, rows.get_device())
    given = _RowsGiven(*map(_cuda.address, (rows, scale, *stream)), count)
    kernel.launch(parts, given, dependent=dependent)


def stream_of(x: torch.Tensor, scale: torch.Tensor | None, part: int, dtype: torch.dtype) -> Stream:
    """The twin of how a stream is left: x [rows, width] float."""
    full = torch.cat([x, x.new_zeros(ROWS - len(x), x.shape[1])])
    split = full.float().unflatten(1, (-1, part))
    mean = split.mean(2, keepdim=True)
    told = torch.stack([mean[..., 0], (split - mean).square().sum(2)])  # [2, 64, parts]
    pairs = told.unflatten(1, (4, 2, 8)).permute(4, 1, 3, 0, 2)  # [parts, warp, row, what, 8 apart]
    scaled = x if scale is None else x * scale.to(x.dtype)
    return Stream(
        into_groups(x.float()), into_fragments(scaled.to(dtype)),
        pairs.reshape(-1, 32, 4).contiguous(),
    )  # fmt: skip


def linear(
    x: torch.Tensor,
    weight: Weight,
    bias: torch.Tensor,
    *,
    eps: float | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    dtype: torch.dtype = torch.bfloat16,
    ranks: int = 1,
) -> torch.Tensor:
    """The twin of a product [rows, n] in the dtype of x [rows, k]; with an eps behind a layer norm,
    which multiplies by scale and adds shift. dtype: of what an E4M3 weight's operands are made of,
    which is in front of the norm."""
    wide = x.dtype
    w, bias = widened(weight, wide), bias.to(wide)
    scale = torch.ones_like(x[0]) if scale is None else scale.to(wide)
    shift = torch.zeros_like(x[0]) if shift is None else shift.to(wide)
    if not isinstance(weight, QuantizedWeight):
        h = x if eps is None else F.layer_norm(x, x.shape[-1:], eps=eps) * scale + shift
        return h @ w.t() + bias
    y = narrowed((x * scale).to(dtype).to(wide), ranks) @ w.t()
    if eps is not None:
        mean = x.mean(1, keepdim=True)
        y = (y - mean * (w @ scale)) * torch.rsqrt(x.var(1, correction=0)[:, None] + eps)
    return y + w @ shift + bias


def reference(
    source: torch.Tensor,
    weight: Weight,
    bias: torch.Tensor,
    form: Form,
    *,
    rows: int,
    eps: float = 0.0,
    x: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
) -> torch.Tensor:
    """The twin, in the dtype of ``source``: groups of what is normed, else fragments. scale, shift:
    of the norm in front. x: groups, that a residual form adds to. -> [rows, n]."""
    h = from_groups(source, rows) if form.part else from_fragments(source, rows)
    y = linear(
        h, weight, bias, eps=eps if form.part else None, scale=scale, shift=shift, ranks=form.ranks
    )
    y = activate(y, form.activation)
    return y if x is None else from_groups(x, rows).to(y.dtype) + y
