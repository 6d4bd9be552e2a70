# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""x W^T for some hundred rows (``cuda/wide_product.cu``), on Hopper: in parts, which whoever reads
the result adds, or gates and ups together. A block's weights are on their way to its shared memory
before the kernel in front has ended."""

from __future__ import annotations

import ctypes
from ctypes import c_uint, c_uint64
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as pairs

import torch

from phyai_ros.engine.kernels import _cuda
from phyai_ros.engine.kernels._tiles import lines_map
from phyai_ros.engine.kernels._wgmma import product

_ROWS = 128
"""Of a block."""
_CHUNK = 64
_FILES = ("hopper.cuh", "wide_product.cu")
_ACTIVATIONS = {"gelu_tanh": 1, "silu": 2}
_COLUMNS = (64, 80, 96, 128)
_MOST = 4
"""Forms that are worth their compilation."""


@dataclass(frozen=True)
class Form:
    """columns of a block, gates and ups counted together; splits of the depth; sharing: blocks of a
    cluster, 1 or 2, which bring x for each other."""

    columns: int
    splits: int = 1
    sharing: int = 1

    def stages(self, k: int) -> int:
        """Of x, 64 columns each, as many as there is room for beside all weights of a block."""
        chunks = k // self.splits // _CHUNK
        room = _cuda.MOST_SHARED - 2048 - 128 * self.columns * chunks
        return min(chunks, room // (128 * _ROWS))

    def shared(self, k: int) -> int:
        """Bytes of shared memory, as ``wide_product.cu`` lays it out."""
        chunks, stages = k // self.splits // _CHUNK, self.stages(k)
        return 128 * (self.columns * chunks + _ROWS * stages) + 8 + 16 * stages

    def fits(self, n: int, k: int) -> bool:
        """n: all rows of a weight [n, k]."""
        whole = n % (self.columns * self.sharing) == 0 == k % (_CHUNK * self.splits)
        return whole and self.stages(k) >= min(3, k // self.splits // _CHUNK)


def forms(m: int, weight: torch.Tensor, *, gated: bool = False) -> list[Form]:
    """What is worth measuring for m rows: all blocks at once, as many as there are. Nothing where
    the kernel was not written for this weight."""
    if weight.dtype not in (torch.float16, torch.bfloat16) or not _cuda.is_hopper(weight.device):
        return []
    processors = torch.cuda.get_device_properties(weight.device).multi_processor_count
    n, k = weight.shape
    return arranged(m, n, k, processors, gated=gated)[:_MOST]


def arranged(m: int, n: int, k: int, processors: int, *, gated: bool = False) -> list[Form]:
    """Forms for m rows and a weight [n, k], the most blocks first."""
    row_tiles = -(-m // _ROWS)
    found = {}
    for columns, sharing in pairs(_COLUMNS, (2, 1)):
        for splits in (1,) if gated else range(1, 9):
            form = Form(columns, splits, sharing)
            if form.fits(n, k):
                found[form] = n // columns * splits * row_tiles
    ranked = sorted(found, key=lambda f: (found[f], -f.splits, f.sharing), reverse=True)
    return [f for f in ranked if processors // 3 <= found[f] <= processors]


class _Given(ctypes.Structure):
    _fields_ = (
        ("x", _cuda.TensorMap), ("weights", _cuda.TensorMap), ("out", c_uint64), ("rows", c_uint),
        ("n", c_uint),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _kernel(
    form: Form, k: int, activation: str, dtype: torch.dtype, dependent: bool, device: int
) -> _cuda.Kernel:
    del device  # a kernel is loaded into one device's context
    return _cuda.Kernel(
        "wide_product", _FILES,
        {
            "COLUMNS": form.columns, "DEPTH": k // form.splits, "SPLITS": form.splits,
            "SHARING": form.sharing, "STAGES": form.stages(k), "GATED": int(bool(activation)),
            "ACTIVATION": _ACTIVATIONS.get(activation, 0), "BF16": int(dtype == torch.bfloat16),
            "PDL": int(dependent),
        },
        cluster=form.sharing, threads=256, shared=form.shared(k),
        products=(product(form.columns, a_shared=True),),
    )  # fmt: skip


def fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    activation: str = "",
    *,
    form: Form,
    dependent: bool = False,
) -> torch.Tensor:
    """x [M, K], weight [N, K], 16 bit, contiguous -> ``skinny_linear.reference_parts`` in float32;
    with an activation ``gated_linear.reference``."""
    (m, k), n = x.shape, weight.shape[0]
    if not form.fits(n, k) or (activation and form.splits > 1):
        raise ValueError(f"{form} does not fit N {n}, K {k}, activation {activation!r}")
    if activation:
        out = torch.empty(m, n // 2, dtype=x.dtype, device=x.device)
    else:
        out = torch.empty(form.splits, m, n, dtype=torch.float32, device=x.device)
    box = form.columns // 2 if activation else form.columns
    given = _Given(
        lines_map(x, _ROWS // form.sharing),
        lines_map(weight, box),
        out.data_ptr(),
        m,
        n,
    )
    kernel = _kernel(form, k, activation, x.dtype, dependent, x.get_device())
    blocks = n // form.columns * form.splits * -(-m // _ROWS)
    kernel.launch(blocks, given, dependent=dependent)
    return out
