# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""x W^T for few rows: the weights are streamed once, the work is split over columns and over K.

Split over K, each part is a float32 sum of its own; whoever reads the result adds the parts, which
costs no launch. Unsplit, bias and activation are applied before the one rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from phyai_ros.engine.kernels._triton import INTERPRETED, jit, power_of_two, tl


@dataclass(frozen=True)
class Tile:
    """columns x depth of W a block takes at a time; splits of K; pipeline stages; warps; rows of x
    a block has, at least the 64 that Hopper's warpgroup products take."""

    columns: int = 64
    depth: int = 64
    splits: int = 1
    stages: int = 5
    warps: int = 4
    rows: int = 64

    def fits(self, n: int, k: int) -> bool:
        return n % self.columns == 0 and k % (self.depth * self.splits) == 0


def lines(depth: int) -> int:
    """Cache lines of a row of 16-bit weights, up to a power of two."""
    return power_of_two(max(1, -(-depth // 64)))


def activate(x: torch.Tensor, name: str) -> torch.Tensor:
    """Each element of x; name: "gelu_tanh", "relu", "silu", or "" for none."""
    if name == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    if name == "relu":
        return F.relu(x)
    return F.silu(x) if name == "silu" else x


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = ""
) -> torch.Tensor:
    """x [M, K], weight [N, K], bias [N] -> activation(x W^T + bias), [M, N] in x's dtype."""
    return activate(F.linear(x, weight, None if bias is None else bias.to(x.dtype)), activation)


def reference_parts(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x [M, K], weight [N, K] -> x W^T as parts to be summed, [parts, M, N]; here one."""
    return F.linear(x, weight)[None]


@jit
def _prefetch(pointers):
    """Ask for the lines at these addresses to be in L2; nothing waits for them."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers], dtype=tl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip


if INTERPRETED:  # no assembly there

    @jit
    def _reciprocal(x):
        return 1.0 / x
else:

    @jit
    def _reciprocal(x):
        """Within a rounding of float32, in one instruction instead of division's dozen."""
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@jit
def _activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu_tanh":  # x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))
        x = x * _reciprocal(1.0 + tl.exp2(x * (-2.302208198144325 - 0.1029432397 * x * x)))
    elif ACTIVATION == "silu":
        x = x * _reciprocal(1.0 + tl.exp2(-1.4426950408889634 * x))
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@jit
def skinny_linear_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, x_stride,
    DEPTH_PER_SPLIT: tl.constexpr, LINES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, IEEE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    start = part * DEPTH_PER_SPLIT
    depth = tl.arange(0, DEPTH)
    w_row = w_ptr + columns.to(tl.int64) * K + start
    if PDL:
        # The weights do not depend on the kernel in front: fetch them while it ends.
        tl.extra.cuda.gdc_launch_dependents()
        spots = tl.minimum(tl.arange(0, LINES) * 64, DEPTH_PER_SPLIT - 64)
        _prefetch(w_row[:, None] + spots[None, :])
        tl.extra.cuda.gdc_wait()
    x_row = x_ptr + rows[:, None] * x_stride + start + depth[None, :]
    w_at = w_row[None, :] + depth[:, None]
    there = rows[:, None] < M
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in range(0, DEPTH_PER_SPLIT, DEPTH):
        a = tl.load(x_row, mask=there, other=0.0)
        b = tl.load(w_at)
        total = tl.dot(a, b, total, input_precision="tf32x3" if IEEE else "tf32")
        x_row += DEPTH
        w_at += DEPTH
    if HAS_BIAS:
        total += tl.load(bias_ptr + columns).to(tl.float32)[None, :]
    total = _activate(total, ACTIVATION)
    out = out_ptr + part * M * N + rows[:, None] * N + columns[None, :]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=there)


def fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "",
    *,
    tile: Tile,
    parts: bool = False,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` (one split), or with ``parts`` ``reference_parts`` in float32."""
    (m, k), n = x.shape, weight.shape[0]
    if not tile.fits(n, k) or (tile.splits > 1 and not parts):
        raise ValueError(f"{tile} does not fit N {n}, K {k}, parts {parts}")
    shape = (tile.splits, m, n) if parts else (m, n)
    out = torch.empty(shape, dtype=torch.float32 if parts else x.dtype, device=x.device)
    options = {"launch_pdl": True} if dependent else {}
    skinny_linear_kernel[(n // tile.columns, tile.splits, -(-m // tile.rows))](
        x, weight, bias if bias is not None else x, out, m, n, k, x.stride(0),
        DEPTH_PER_SPLIT=k // tile.splits, LINES=lines(k // tile.splits),
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
        HAS_BIAS=bias is not None, ACTIVATION=activation, IEEE=x.dtype == torch.float32,
        PDL=dependent, num_warps=tile.warps, num_stages=tile.stages, **options,
    )  # fmt: skip
    return out
