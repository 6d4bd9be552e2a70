# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Image resizing with the arithmetic of the libraries that the references use, on any device.

Every function takes uint8 [..., H, W] (planes: channels first) and gives uint8, unless it says so.
cv2_area: OpenCV INTER_AREA. torchvision_resize: torchvision's resize of a uint8 tensor.
pil_bilinear: Pillow BILINEAR. The tables depend on sizes alone and are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import torch
from torch.nn import functional as F

from phyai_ros.engine.types import PolicyError

_CPU = torch.device("cpu")


# -- OpenCV ------------------------------------------------------------------------------------
def cv2_area(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """image uint8 [..., H, W] -> [..., height, width]. OpenCV's INTER_AREA: the mean over each
    target pixel's area in float32, rounded to even. Enlarging in either direction is its linear
    interpolation in 11-bit fixed point, with area-aligned coordinates. Equal to it, pixel for
    pixel."""
    h, w = image.shape[-2:]
    if (h, w) == (height, width):
        return image
    if h < height or w < width:
        return _cv2_linear(image, height, width)
    if h % height == 0 and w % width == 0:
        return _cv2_whole(image, height, width)
    rows = _area_taps(h, height, image.device)
    columns = _area_taps(w, width, image.device)
    out = _apply(_apply(image.float(), columns, -1), rows, -2)
    return out.round_().clamp_(0, 255).to(torch.uint8)


def _cv2_whole(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Whole ratios: an integer sum times the area's inverse; 2 x 2 rounds halves up."""
    down, across = image.shape[-2] // height, image.shape[-1] // width
    cells = image.unflatten(-1, (width, across)).unflatten(-3, (height, down))
    total = cells.sum(dim=(-3, -1), dtype=torch.int32)
    if down == across == 2:
        return ((total + 2) >> 2).to(torch.uint8)
    inverse = float(np.float32(1.0 / (down * across)))
    return (total.float() * inverse).round_().to(torch.uint8)


def _apply(x: torch.Tensor, taps: tuple[torch.Tensor, torch.Tensor], dim: int) -> torch.Tensor:
    """Weighted sum of taps along a dimension: index and weight [taps, size]."""
    index, weight = taps
    shape = (-1, 1) if dim == -2 else (-1,)
    out = x.index_select(dim, index[0]) * weight[0].view(shape)
    for k in range(1, len(index)):
        out = out + x.index_select(dim, index[k]) * weight[k].view(shape)  # not fused: exactness
    return out


@lru_cache(maxsize=64)
def _area_taps(source: int, target: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Which source pixels each target pixel covers, and by how much of its area."""
    scale = 1.0 / (target / source)  # as OpenCV has it
    rows = []
    for i in range(target):
        start, stop = i * scale, min((i + 1) * scale, source)
        cell = min(scale, source - start)
        first, last = math.ceil(start), min(math.floor(stop), source - 1)
        first = min(first, last)
        taps = []
        if first - start > 1e-3:
            taps.append((first - 1, (first - start) / cell))
        taps += [(j, 1.0 / cell) for j in range(first, last)]
        if stop - last > 1e-3:
            taps.append((last, min(min(stop - last, 1.0), cell) / cell))
        rows.append(taps)
    return _pack(rows, torch.float32, device)


def _pack(
    rows: list[list[tuple[int, float]]], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ragged taps -> index and weight [most taps, rows], unused ones with weight 0."""
    most = max(map(len, rows))
    padded = [taps + [(taps[-1][0], 0.0)] * (most - len(taps)) for taps in rows]
    index = torch.tensor([[t[0] for t in taps] for taps in padded]).t().contiguous()
    weight = torch.tensor([[t[1] for t in taps] for taps in padded], dtype=torch.float64)
    return index.to(device), weight.t().contiguous().to(dtype).to(device)


_BITS = 11


def _cv2_linear(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    h, w = image.shape[-2:]
    x0, x1, a0, a1 = _linear_taps(w, width, image.device)
    y0, y1, b0, b1 = _linear_taps(h, height, image.device)
    wide = image.to(torch.int32)
    rows = wide.index_select(-1, x0) * a0 + wide.index_select(-1, x1) * a1
    rows = rows >> 4
    top = (rows.index_select(-2, y0) * b0[:, None]) >> 16
    bottom = (rows.index_select(-2, y1) * b1[:, None]) >> 16
    return ((top + bottom + 2) >> 2).clamp_(0, 255).to(torch.uint8)


@lru_cache(maxsize=64)
def _linear_taps(
    source: int, target: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two neighbours of each target pixel and their weights in 1/2048."""
    inverse = target / source
    scale = 1.0 / inverse  # as OpenCV has it: not always source / target
    first, second, low, high = [], [], [], []
    for i in range(target):
        at = math.floor(i * scale)
        part = np.float32((i + 1) - (at + 1) * inverse)
        part = np.float32(0) if part <= 0 else np.float32(part - np.floor(part))
        if at < 0:
            at, part = 0, np.float32(0)
        if at >= source - 1:
            at, part = source - 1, np.float32(0)
        first.append(at)
        second.append(min(at + 1, source - 1))
        low.append(int(np.rint(np.float32(np.float32(1) - part) * np.float32(1 << _BITS))))
        high.append(int(np.rint(part * np.float32(1 << _BITS))))
    tables = [torch.tensor(t, device=device) for t in (first, second)]
    weights = [torch.tensor(t, dtype=torch.int32, device=device) for t in (low, high)]
    return tables[0], tables[1], weights[0], weights[1]


# -- torchvision and Pillow --------------------------------------------------------------------
# Both weigh in fixed point, columns first, with bytes between the two passes.
_PIL_BITS = 32 - 8 - 2


def torchvision_resize(
    image: torch.Tensor, height: int, width: int, mode: str = "bicubic"
) -> torch.Tensor:
    """image uint8 [..., 3, H, W] -> [..., 3, height, width]. torchvision's resize with
    antialiasing, bicubic or bilinear: torch's own integer kernel on the CPU, the same arithmetic
    elsewhere. Equal to it, pixel for pixel."""
    if image.device == _CPU and tuple(image.shape[-2:]) != (height, width):
        batched = image.reshape(-1, *image.shape[-3:])
        out = F.interpolate(
            batched, (height, width), mode=mode, align_corners=False, antialias=True
        )
        return out.reshape(*image.shape[:-2], height, width)
    return _fixed(image, height, width, lambda *sizes: torch_taps(*sizes, mode, image.device))


def pil_bilinear(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """image uint8 [..., H, W] -> [..., height, width]. Pillow's BILINEAR (a triangle as wide as the
    scale). Equal to it, pixel for pixel."""
    return _fixed(image, height, width, lambda *sizes: (*pil_taps(*sizes, image.device), _PIL_BITS))


Taps = Callable[[int, int], tuple[torch.Tensor, torch.Tensor, int]]
"""source, target -> index and weight [taps, target], int32, and the weights' bits."""


def _fixed(image: torch.Tensor, height: int, width: int, taps: Taps) -> torch.Tensor:
    h, w = image.shape[-2:]
    out = image
    if w != width:
        out = _fixed_pass(out, *taps(w, width), -1)
    if h != height:
        out = _fixed_pass(out, *taps(h, height), -2)
    return out


def _fixed_pass(
    x: torch.Tensor, index: torch.Tensor, weight: torch.Tensor, bits: int, dim: int
) -> torch.Tensor:
    seen = x.index_select(dim, index.flatten()).unflatten(dim, index.shape).int()
    weight = weight[..., None] if dim == -2 else weight
    total = (seen * weight).sum(dim - 1, dtype=torch.int32)
    return ((total + (1 << (bits - 1))) >> bits).clamp_(0, 255).to(torch.uint8)


@lru_cache(maxsize=64)
def pil_taps(source: int, target: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Pillow's: index and weight [taps, target], int32, in 1 / 2^22."""
    rows = [
        (low, [math.floor(0.5 + v * (1 << _PIL_BITS)) for v in weights])
        for low, weights in _filtered(source, target, lambda x: max(0.0, 1 - abs(x)), 1.0)
    ]
    return _packed(rows, device)


@lru_cache(maxsize=64)
def torch_taps(
    source: int, target: int, mode: str, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """torch's: index and weight [taps, target], int32, and the weights' bits: as many as 16-bit
    weights can have."""
    if mode == "bicubic":
        rows = _filtered(source, target, _cubic, 2.0)
    else:
        rows = _filtered(source, target, lambda x: max(0.0, 1 - abs(x)), 1.0)
    largest = max(max(weights) for _, weights in rows)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    fixed = [
        (low, [int(math.copysign(0.5, v) + v * (1 << bits)) for v in weights])
        for low, weights in rows
    ]
    return *_packed(fixed, device), bits


def _filtered(
    source: int, target: int, kernel: Callable[[float], float], reach: float
) -> list[tuple[int, list[float]]]:
    """Each target pixel's first source pixel and normalised weights: a kernel that reaches so many
    pixels to either side, stretched when shrinking."""
    scale = source / target
    stretch = max(scale, 1.0)
    rows = []
    for i in range(target):
        centre = (i + 0.5) * scale
        low = max(int(centre - reach * stretch + 0.5), 0)
        high = min(int(centre + reach * stretch + 0.5), source)
        weights = [kernel((j - centre + 0.5) / stretch) for j in range(low, high)]
        total = sum(weights)
        rows.append((low, [v / total for v in weights]))
    return rows


def _cubic(x: float) -> float:
    """The cubic convolution of Keys (1981) with a = -0.5."""
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _packed(
    rows: list[tuple[int, list[int]]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    taps = [[(low + j, float(v)) for j, v in enumerate(weights)] for low, weights in rows]
    index, weight = _pack(taps, torch.float64, _CPU)
    return index.int().to(device), weight.int().to(device)


# -- geometry ----------------------------------------------------------------------------------
def pad_to_square(image: torch.Tensor) -> torch.Tensor:
    """[..., H, W] centred in black, the odd pixel at the bottom or right."""
    h, w = image.shape[-2:]
    if h == w:
        return image
    side = max(h, w)
    top, left = (side - h) // 2, (side - w) // 2
    return F.pad(image, (left, side - w - left, top, side - h - top))


def centre_crop(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """image [..., H, W] -> the window [..., height, width] whose offset is floored."""
    h, w = image.shape[-2:]
    top, left = max(0, (h - height) // 2), max(0, (w - width) // 2)
    return image[..., top : top + height, left : left + width]


def check_fits(camera: str, image: np.ndarray, height: int, width: int) -> None:
    """Raises PolicyError where an image [h, w, ...], scaled to lie within height x width, has no
    row or no column left: the references cut such sizes to 0 and fail."""
    h, w = image.shape[:2]
    if h * width < w or w * height < h:
        raise PolicyError(
            f"camera {camera!r}: expected an image of which a row and a column are left within "
            f"{height} x {width} pixels, found {h} x {w}"
        )


def images_in_order(images: Mapping[str, np.ndarray], keys: tuple[str, ...]) -> list[np.ndarray]:
    """The images of ``keys`` that are there, in that order."""
    return [images[key] for key in keys if key in images]
