# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""epilogue(norm(x) W^T) for few rows in one launch (``cuda/cluster_product.cu``), on Hopper.

A block holds its whole share of the weights in shared memory and asks for it before the kernel in
front has ended; partial sums are joined inside a cluster. Between these kernels rows travel in the
order of fragments (``fragments``), or of bytes (``e4m3.in_bytes``) between those of E4M3 weights.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_uint64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product
from phyai_ros.engine.kernels.e4m3 import from_bytes, ordered
from phyai_ros.engine.kernels.fragments import (
    COPY,
    ROWS,
    from_fragments,
    from_groups,
    mean_square,
)
from phyai_ros.engine.kernels.joined import Shares
from phyai_ros.engine.kernels.skinny_linear import activate
from phyai_ros.engine.quantize import QuantizedWeight, in_e5m2, widened

_NORMS = {"": 0, "rms": 1}
_EPILOGUES = {"rope": 1, "residual": 2, "gated": 3}
_ACTIVATIONS = {"": 0, "gelu_tanh": 1, "silu": 2}
_FILES = (
    "hopper.cuh", "join.cuh", "e4m3.cuh", "cluster.cuh", "cluster_epilogue.cuh",
    "cluster_product.cu",
)  # fmt: skip

Weight = Any
"""A tensor [n, k], 16 bit and contiguous, or a ``QuantizedWeight``."""


@dataclass(frozen=True)
class Form(Shares):
    """What is compiled into a kernel.

    n, k: of W [n, k]; without a norm k may be more than W has, as if columns of zeros followed.
    blocks of a cluster, of ``groups`` warpgroups each, share the depth. half: a cluster makes twice
    as many columns. norm of x: "", or "rms", whose scale is in the operands already and whose
    squares stand beside them. epilogue: "rope" (packed queries, keys and values,
    ``heads`` and twice ``kv`` of ``d`` columns: rotated, queries as fragments, keys and values into
    their cache), "residual" (x += gate (y + bias)), "gated" (W's first half of rows are gates, the
    second ups). registers of a thread at most: a block starts beside one of the kernel in front
    only where both together have no more than a multiprocessor's 65536. fp8: W is E4M3, and what it
    multiplies, halves, becomes E5M2 in the kernel's registers. takes: of these, "" or "bytes": it
    is E5M2 already (``in_bytes``). leaves: "" or "bytes", of what "residual" and "gated" leave for
    the next product. late: the next launch may start behind this one's products, not before them.
    most: blocks of these on one multiprocessor, 0: as many as there is room for.
    """

    n: int
    k: int
    blocks: int
    groups: int
    half: int
    epilogue: str
    norm: str = ""
    activation: str = ""
    registers: int = 224
    d: int = 256
    heads: int = 8
    kv: int = 1
    fp8: bool = False
    takes: str = ""
    leaves: str = ""
    late: bool = False
    most: int = 0

    @property
    def paired(self) -> bool:
        """Whether a column goes with one of the other half."""
        return self.epilogue in ("rope", "gated")

    def fits(self) -> bool:
        packed = (self.heads + 2 * self.kv) * self.d
        return (
            self.whole()
            and self.n % (2 * self.half) == 0
            and self.half % 8 == 0
            and (self.epilogue != "rope" or (self.n == packed and self.d // 2 % self.half == 0))
            and 2 * self.half <= 256
            and (2 * self.half) % (8 * self.ranks * (2 if self.paired else 1)) == 0
            and self.shared() <= _cuda.MOST_SHARED
            and self.groups * 128 * self.registers <= _cuda.REGISTERS
        )

    def shared(self) -> int:
        """Bytes of shared memory a block takes."""
        own = 2 * self.half // 8 // self.ranks
        weights = 2 * self.half * self.depth * (1 if self.fp8 else 2)
        each = weights + (self.blocks - 1) * own * 2048
        sums = 4 * self.ranks * ROWS if self.norm else 0
        return self.claimed(self.groups * each + sums + 8 + 8 * self.k // 64 // self.blocks)


class _Given(ctypes.Structure):
    _fields_ = (
        ("weights", _cuda.TensorMap),
        *((n, c_uint64) for n in (
            "x_in", "scale", "bias", "gate", "channels", "x", "old", "out", "squares", "key",
            "value", "cosine", "sine",
        )),
        ("rows", c_int), ("eps", c_float),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _kernel(form: Form, dtype: torch.dtype, dependent: bool, device: int) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "cluster_product", _FILES,
        {
            "N": form.n, "K": form.k, "BLOCKS": form.blocks, "GROUPS": form.groups,
            "COLUMNS": 2 * form.half, "PAIRED": int(form.paired),
            "FP8": int(form.fp8), "E5M2": int(form.fp8),
            "BYTES": int(form.takes == "bytes"), "LEAVES": int(form.leaves == "bytes"),
            "NORM": _NORMS[form.norm],
            "EPILOGUE": _EPILOGUES[form.epilogue], "ACTIVATION": _ACTIVATIONS[form.activation],
            "D": form.d, "HEADS": form.heads, "KV": form.kv, "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent), "REGISTERS": form.registers, "LATE": int(form.late),
        },
        cluster=form.blocks, threads=128 * form.groups, shared=form.shared(),
        products=(product(2 * form.half, fp8=form.fp8, e5m2=form.fp8),),
    )  # fmt: skip


class ClusterProduct:
    """One weight [n, k], 16 bit and contiguous, as one form's kernel takes it. Of an E4M3 one there
    is a copy (``e4m3.ordered``) where the form takes halves."""

    def __init__(self, weight: Weight, form: Form, *, dependent: bool = True):
        n, k = weight.shape
        fp8 = isinstance(weight, QuantizedWeight)
        if fp8 != form.fp8 or (fp8 and weight.dtype != torch.float16):
            raise ValueError(f"{form} does not fit a weight of {weight.dtype}, fp8 {fp8}")
        if not form.fits() or n != form.n or k > form.k or (form.norm and k < form.k):
            raise ValueError(f"{form} does not fit a weight of {tuple(weight.shape)}")
        self.weight, self.form = weight, form
        self._dependent = dependent
        self._held: torch.Tensor
        self._channels: torch.Tensor | None
        if isinstance(weight, QuantizedWeight):
            self._held = weight.values if form.takes else ordered(weight.values)
            self._channels = weight.scale
        else:
            self._held, self._channels = weight, None
        self._map = lines_map(self._held, form.half)
        self._kernel = _kernel(form, weight.dtype, dependent, self._held.get_device())
        self._blocks = form.n // (2 * form.half) * form.blocks

    def __call__(
        self,
        source: torch.Tensor,
        *,
        rows: int,
        out: torch.Tensor | None = None,
        x: torch.Tensor | None = None,
        scale: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        gate: torch.Tensor | None = None,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
        cos: torch.Tensor | None = None,
        sin: torch.Tensor | None = None,
        eps: float = 0.0,
        old: torch.Tensor | None = None,
        begins: bool = False,
        squares: torch.Tensor | None = None,
    ) -> None:
        """source: fragments of k columns, 16 bit, or bytes (``Form.takes``). out: the same
        (``Form.leaves``); of "residual", the stream's copy. x: the stream, groups of n columns,
        changed in place, or only written: where it was ``old``, which stays, or where it
        ``begins``, from zeros. bias and gate [n], float32.

        What stands in front of a norm leaves it the stream times ``COPY`` and the norm's scale
        ("residual": scale [n], none is ones) and the squares (``into_squares``) of the stream; a
        shift of the norm's is a bias, ``through(weight, shift)``. key, value: [>= rows, kv d],
        written from their first row on. cos, sin: float32 [rows, d]."""
        before = None if begins else x if old is None else old
        places = (
            source, scale, bias, gate, self._channels, x, before, out, squares, key, value, cos,
            sin,
        )  # fmt: skip
        given = _Given(self._map, *map(_cuda.address, places), rows, eps)
        self._kernel.launch(self._blocks, given, dependent=self._dependent)


def through(weight: Weight, shift: torch.Tensor) -> torch.Tensor:
    """What a norm's shift [k] adds to the product with weight [n, k]; float32 [n]."""
    return widened(weight) @ shift.float()


def reference(
    source: torch.Tensor,
    weight: Weight,
    form: Form,
    *,
    rows: int,
    x: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    cos: torch.Tensor | None = None,
    sin: torch.Tensor | None = None,
    eps: float = 0.0,
    squares: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """The twin, in the dtype of ``source``; E5M2 rows are made as the kernel makes them. ->
    (y [rows, n]), or (x, its copy), or for "rope" queries [rows, heads d], keys and values [rows,
    kv d]; plain rows, not fragments."""
    h = from_fragments(source, rows) if source.ndim == 4 else from_bytes(source, rows)
    wide = h.dtype
    if form.fp8:
        h = in_e5m2(h).to(wide)
    if form.norm:
        assert squares is not None
        h = h / COPY * torch.rsqrt(mean_square(squares.to(wide), rows)[:, None] + eps)
    y = h @ widened(weight, wide).t()
    if bias is not None:
        y = y + bias.to(wide)
    if form.epilogue == "residual":
        assert x is not None
        x = from_groups(x, rows).to(wide) + (y if gate is None else y * gate.to(wide))
        return x, x * COPY * (1.0 if scale is None else scale.to(wide))
    if form.epilogue == "gated":
        one, two = y.chunk(2, dim=1)
        return (activate(one, form.activation) * two,)
    assert cos is not None
    assert sin is not None
    q, k, v = y.view(rows, -1, form.d).split((form.heads, form.kv, form.kv), dim=1)
    q, k = (rotated(t, cos.to(wide), sin.to(wide)) for t in (q, k))
    return q.flatten(1), k.flatten(1), v.flatten(1)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [rows, heads, d], half-split layout."""
    one, two = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat([-two, one], dim=-1) * sin[:, None]
