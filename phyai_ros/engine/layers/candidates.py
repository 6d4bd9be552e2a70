# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the selector measures: tiles of our products and of our attention, and their names."""

from __future__ import annotations

import torch

from phyai_ros.engine.kernels.attention import Blocks
from phyai_ros.engine.kernels.skinny_linear import Tile

SKINNY = 64
"""Rows up to which our products are offered most tiles: one of rows, each weight read once."""
_SOME, _STEP = 256, 64
"""Rows up to which they are offered at all: few tiles then, for each is compiled. So many rows are
one choice: prompts differ by less."""

TILES = (
    Tile(16, 128, 1, 5), Tile(32, 64, 1, 6), Tile(32, 64, 1, 4), Tile(32, 128, 1, 4),
    Tile(32, 128, 1, 3), Tile(64, 64, 1, 5), Tile(64, 64, 1, 3),
    Tile(32, 128, 2, 4), Tile(64, 128, 2, 4), Tile(64, 64, 2, 3), Tile(64, 128, 2, 2),
    Tile(32, 128, 4, 4), Tile(64, 128, 4, 4), Tile(64, 64, 4, 3), Tile(64, 64, 6, 4),
    Tile(64, 128, 6, 3), Tile(64, 64, 8, 5), Tile(64, 64, 8, 3), Tile(32, 128, 8, 4),
    Tile(32, 128, 8, 2), Tile(128, 64, 8, 3, 8), Tile(64, 64, 12, 3),
    Tile(32, 256, 2, 2), Tile(64, 256, 2, 2, 8), Tile(32, 256, 4, 2), Tile(64, 256, 4, 2, 8),
    Tile(32, 256, 8, 2), Tile(64, 256, 8, 2, 8), Tile(64, 128, 8, 3), Tile(64, 128, 8, 2),
    Tile(64, 64, 3, 4), Tile(64, 64, 5, 3), Tile(32, 64, 5, 3),
)  # fmt: skip
"""Those with little shared memory let the next kernel start on the same multiprocessor."""
GATED_TILES = (
    Tile(32, 64, 1, 5), Tile(32, 64, 1, 3), Tile(32, 128, 1, 4), Tile(32, 128, 1, 3),
    Tile(32, 128, 1, 2), Tile(64, 64, 1, 3, 8), Tile(16, 128, 1, 4), Tile(32, 256, 1, 2),
    Tile(32, 128, 1, 4, 8), Tile(64, 128, 1, 2, 8),
)  # fmt: skip
_SOME_TILES = (
    Tile(64, 64, 1, 4, 4, 64), Tile(32, 64, 1, 5, 4, 128), Tile(64, 64, 3, 4, 4, 64),
    Tile(64, 64, 3, 4, 4, 128), Tile(64, 64, 5, 4, 4, 128), Tile(64, 64, 4, 4, 4, 128),
    Tile(64, 64, 8, 4, 4, 64), Tile(64, 64, 12, 4, 4, 64),
)  # fmt: skip
_SOME_GATED = (
    Tile(64, 64, 1, 3, 4, 64), Tile(32, 64, 1, 4, 4, 128), Tile(64, 64, 1, 3, 8, 128),
    Tile(128, 64, 1, 3, 8, 64),
)  # fmt: skip


def is_some(x: torch.Tensor) -> bool:
    """Whether x [M, K] has a number of rows whose products are offered in parts and gated, by us
    and for Hopper."""
    return SKINNY < len(x) <= _SOME


def whole_for(x: torch.Tensor) -> list[Tile]:
    """Tiles for x [M, K] W^T in one piece; none for many rows."""
    return [t for t in TILES if t.splits == 1] if len(x) <= SKINNY else []


def parts_for(x: torch.Tensor) -> tuple[Tile, ...]:
    """Tiles for x [M, K] W^T in parts, which its reader adds."""
    return TILES if len(x) <= SKINNY else _SOME_TILES if is_some(x) else ()


def gated_for(x: torch.Tensor) -> tuple[Tile, ...]:
    """Tiles for activation(x G^T) (x U^T), x [M, K]."""
    return GATED_TILES if len(x) <= SKINNY else _SOME_GATED if is_some(x) else ()


_FEW = (
    Blocks(64, 64, 1), Blocks(16, 64, 1, 2, 4), Blocks(16, 256, 1, 1, 4), Blocks(32, 256, 1, 1, 4),
    Blocks(64, 256, 1, 1, 8), Blocks(32, 64, 1, 2, 4),
    Blocks(64, 64, 7, 2, 8), Blocks(64, 32, 8, 2, 4), Blocks(32, 64, 7, 2, 4),
    Blocks(64, 64, 14, 1, 8), Blocks(32, 64, 14, 1, 4), Blocks(128, 64, 14, 1, 8),
    Blocks(64, 128, 7, 1, 8), Blocks(32, 32, 14, 2, 4), Blocks(64, 64, 14, 2, 8),
    Blocks(64, 64, 14, 2, 4), Blocks(64, 32, 14, 2, 4), Blocks(64, 32, 28, 2, 4),
    Blocks(64, 64, 7, 2, 4), Blocks(128, 64, 14, 2, 8), Blocks(32, 64, 14, 2, 4),
    Blocks(64, 64, 14, 2, 4, 1), Blocks(64, 32, 14, 2, 4, 1), Blocks(128, 64, 14, 2, 8, 1),
)  # fmt: skip
"""For few queries over many keys."""
_MANY = (
    Blocks(64, 64, 1), Blocks(64, 64, 1, 3), Blocks(128, 64, 1, 2, 8), Blocks(64, 32, 1, 3, 4),
)  # fmt: skip

SINGLE = (Blocks(16, 64, 4), Blocks(16, 32, 4, 1))
"""For a query or a few."""
_AT_ONCE = (Blocks(32, 256, 1, 1, 4), Blocks(64, 256, 1, 1, 8), Blocks(64, 128, 1, 2, 4))
"""For few keys, of narrow heads: all, or half of them, in one step."""


def blocks_for(rows: int, keys: int, d: int, heads: int = 1) -> list[Blocks]:
    """rows: folded queries of one request and key-value head. heads: of those how many there are;
    with enough of them nothing needs splitting."""
    if rows > 512:
        return [*_MANY, *(_AT_ONCE if d <= 64 and keys <= 256 else ())]
    few = [b for b in _FEW if b.keys <= 128 or (d <= 64 and keys <= 256)]
    if heads * rows >= 8192:
        return [*(b for b in few if b.splits == 1), *_MANY[1:]]
    return [b for b in few if b.splits == 1 or (b.splits - 1) * b.keys < keys]


# -- names in a table ------------------------------------------------------------------------------


def dtype_of(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def key_of(op: str, x: torch.Tensor, weight: torch.Tensor, step: int = 1) -> str:
    """step: rows are counted in, up."""
    rows = -(-len(x) // step) * step
    return f"{op} {rows}x{weight.shape[0]}x{weight.shape[1]} {dtype_of(x)}"


def step_of(x: torch.Tensor) -> int:
    """Of products that are offered for more than a few rows."""
    return _STEP if is_some(x) else 1


def name_of(candidate: Tile | Blocks) -> str:
    return "x".join(map(str, vars(candidate).values()))


def tile_of(choice: str) -> Tile | None:
    """None where it names something else."""
    return Tile(*map(int, choice.split("x"))) if choice[0].isdigit() else None


def blocks_of(choice: str) -> Blocks:
    return Blocks(*map(int, choice.split("x")))
