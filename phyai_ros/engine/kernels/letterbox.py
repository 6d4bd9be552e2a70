# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera bytes -> the float planes that an image tower sees: scaled to fit, padded with black, in
[-1, 1].

Two rules of scaling. LeRobot's: bilinear in float without antialiasing, as torch does it. Pillow's
(openpi's policy server): its BILINEAR in fixed point, bytes between its two passes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch.nn import functional as F

from phyai_ros.engine.image import pil_bilinear, pil_taps
from phyai_ros.engine.kernels._triton import tl, unspecialised


def fit(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """(height, width) scaled to lie within rows x columns; cut, not rounded, as all do."""
    ratio = max(width / columns, height / rows)
    return int(height / ratio), int(width / ratio)


def corner(size: tuple[int, int], rows: int, columns: int, centred: bool) -> tuple[int, int]:
    """Rows above and columns left of the picture: half of the rest, or all of it."""
    top, left = rows - size[0], columns - size[1]
    return (top // 2, left // 2) if centred else (top, left)


def rows_seen(height: int, width: int, rows: int, columns: int) -> np.ndarray | None:
    """Of an image of this size, the rows that LeRobot's rule looks at when it shrinks it into rows
    x columns; None where that is nearly all of them. The others need not travel."""
    seen = _rows_seen(height, fit(height, width, rows, columns)[0])
    return None if len(seen) > 0.9 * height else seen


def reference(
    pixels: torch.Tensor,
    rows: int,
    columns: int,
    *,
    height: int | None = None,
    pillow: bool = False,
    centred: bool = True,
) -> torch.Tensor:
    """uint8 [N, H, W, 3] -> float32 [N, 3, rows, columns] in [-1, 1]. height: of the images, where
    pixels are their ``rows_seen`` alone."""
    if height not in (None, pixels.shape[1]):
        count, _, width, _ = pixels.shape
        at = _index(height, fit(height, width, rows, columns)[0], pixels.device)
        pixels = pixels.new_zeros(count, height, width, 3).index_copy_(1, at, pixels)
    image = pixels.movedim(-1, -3)
    size = fit(image.shape[-2], image.shape[-1], rows, columns)
    if pillow:
        x = pil_bilinear(image, *size).float() / 255
    else:
        x = image.float() / 255
        if tuple(x.shape[-2:]) != (rows, columns):
            x = F.interpolate(x, size, mode="bilinear", align_corners=False).clamp(0.0, 1.0)
    top, left = corner(size, rows, columns, centred)
    x = F.pad(x, (left, columns - size[1] - left, top, rows - size[0] - top))
    return x * 2.0 - 1.0


@unspecialised("HEIGHT", "WIDTH", "ROWS", "COLUMNS", "TALL", "WIDE", "TOP", "LEFT")
def letterbox_kernel(
    pixels_ptr, out_ptr, y_at_ptr, y_weight_ptr, x_at_ptr, x_weight_ptr,
    HEIGHT, WIDTH, ROWS, COLUMNS, TALL, WIDE, TOP, LEFT,
    Y_TAPS: tl.constexpr, X_TAPS: tl.constexpr, PILLOW: tl.constexpr, BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """A program: BLOCK pixels of one plane."""
    image = (tl.program_id(1) // 3).to(tl.int64)
    channel = tl.program_id(1) % 3
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = at // COLUMNS - TOP, at % COLUMNS - LEFT
    within = (y >= 0) & (y < TALL) & (x >= 0) & (x < WIDE)
    source = pixels_ptr + image * HEIGHT * WIDTH * 3 + channel
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    total = tl.full([BLOCK], 1 << 21, tl.int32) if PILLOW else tl.zeros([BLOCK], tl.float32)
    for j in range(Y_TAPS):
        row = tl.load(y_at_ptr + j * TALL + y, mask=within, other=0)
        y_weight = tl.load(y_weight_ptr + j * TALL + y, mask=within, other=0)
        line = tl.full([BLOCK], 1 << 21, tl.int32) if PILLOW else tl.zeros([BLOCK], tl.float32)
        for i in range(X_TAPS):
            column = tl.load(x_at_ptr + i * WIDE + x, mask=within, other=0)
            x_weight = tl.load(x_weight_ptr + i * WIDE + x, mask=within, other=0)
            value = tl.load(source + (row * WIDTH + column) * 3, mask=within, other=0)
            if PILLOW:
                line += value.to(tl.int32) * x_weight
            else:
                line += value.to(tl.float32) / 255.0 * x_weight
        if PILLOW:
            line = tl.minimum(tl.maximum(line >> 22, 0), 255)
        total += line * y_weight
    if PILLOW:
        result = tl.minimum(tl.maximum(total >> 22, 0), 255).to(tl.float32) / 255.0
    else:
        result = tl.minimum(tl.maximum(total, 0.0), 1.0)
    result = tl.where(within, result * 2.0 - 1.0, -1.0)
    out = out_ptr + tl.program_id(1).to(tl.int64) * ROWS * COLUMNS + at
    tl.store(out, result, mask=at < ROWS * COLUMNS)


def fused(
    pixels: torch.Tensor,
    rows: int,
    columns: int,
    *,
    height: int | None = None,
    pillow: bool = False,
    centred: bool = True,
    dependent: bool = False,
) -> torch.Tensor:
    """``reference`` in one launch. pixels contiguous. Pillow's rule gives its very bytes."""
    count, there, width, _ = pixels.shape
    height = there if height is None else height
    size = fit(height, width, rows, columns)
    if not pillow and (height, width) == (rows, columns):
        size = (height, width)
    top, left = corner(size, rows, columns, centred)
    taps = pil_taps if pillow else _linear_taps
    y_at, y_weight = taps(height, size[0], pixels.device)
    x_at, x_weight = taps(width, size[1], pixels.device)
    if there != height:
        y_at = _among_seen(height, size[0], pixels.device)
    out = torch.empty(count, 3, rows, columns, device=pixels.device)
    block = 256
    options = {"launch_pdl": True} if dependent else {}
    letterbox_kernel[(-(-rows * columns // block), 3 * count)](
        pixels, out, y_at, y_weight, x_at, x_weight,
        there, width, rows, columns, *size, top, left,
        Y_TAPS=len(y_at), X_TAPS=len(x_at), PILLOW=pillow, BLOCK=block, PDL=dependent,
        num_warps=4, **options,
    )  # fmt: skip
    return out


@lru_cache(maxsize=64)
def _linear_taps(
    source: int, target: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """int32 and float32 [2, target]: torch's neighbours and weights (align_corners=False)."""
    i = torch.arange(target, dtype=torch.float32)
    scale = torch.tensor(source, dtype=torch.float32) / target
    where = (scale * (i + 0.5) - 0.5).clamp_(min=0)
    first = where.int().clamp_(max=source - 1)
    second = (first + 1).clamp_(max=source - 1)
    high = (where - first).clamp_(max=1)
    at, weight = torch.stack([first, second]), torch.stack([1 - high, high])
    return at.contiguous().to(device), weight.contiguous().to(device)


@lru_cache(maxsize=64)
def _rows_seen(source: int, target: int) -> np.ndarray:
    at, weight = _linear_taps(source, target, torch.device("cpu"))
    return np.unique(at[weight != 0].numpy()).astype(np.int64)


@lru_cache(maxsize=64)
def _index(source: int, target: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(_rows_seen(source, target)).to(device)


@lru_cache(maxsize=64)
def _among_seen(source: int, target: int, device: torch.device) -> torch.Tensor:
    """``_linear_taps``'s rows, counted among those that are seen."""
    at, _ = _linear_taps(source, target, torch.device("cpu"))
    seen = _rows_seen(source, target)
    among = np.minimum(np.searchsorted(seen, at.numpy()), len(seen) - 1)
    return torch.from_numpy(among.astype(np.int32)).to(device)
