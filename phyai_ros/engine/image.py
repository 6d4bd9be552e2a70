# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Image resizing with the arithmetic of the libraries that the references use, on any device.

Every function takes uint8 [..., H, W] (planes: channels first) and gives uint8, unless it says so.
cv2_area: OpenCV INTER_AREA. torchvision_resize: torchvision's resize of a uint8 tensor.
pil_bilinear: Pillow BILINEAR. The tables depend on sizes alone and are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch.nn import functional as F

_CPU = torch.device("cpu")


# -- OpenCV ------------------------------------------------------------------------------------
def cv2_area(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """OpenCV's INTER_AREA: the mean over each target pixel's area in float32, rounded to even.
    Enlarging in either direction is its linear interpolation in 11-bit fixed point, with
    area-aligned coordinates. Equal to it, pixel for pixel."""
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


# -- torchvision -------------------------------------------------------------------------------
def torchvision_resize(
    image: torch.Tensor, height: int, width: int, mode: str = "bicubic", antialias: bool = True
) -> torch.Tensor:
    """torchvision's resize of a uint8 tensor: torch's own integer kernel on the CPU; elsewhere
    float32, clamped, rounded (within 1 of it)."""
    if tuple(image.shape[-2:]) == (height, width):
        return image
    batched = image.reshape(-1, *image.shape[-3:])
    if image.device == _CPU:
        out = F.interpolate(
            batched, (height, width), mode=mode, align_corners=False, antialias=antialias
        )
    else:
        out = F.interpolate(
            batched.float(), (height, width), mode=mode, align_corners=False, antialias=antialias
        )
        out = out.clamp_(0, 255).round_().to(torch.uint8)
    return out.reshape(*image.shape[:-2], height, width)


# -- Pillow ------------------------------------------------------------------------------------
_PIL_BITS = 32 - 8 - 2


def pil_bilinear(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Pillow's BILINEAR (a triangle as wide as the scale), in its own fixed point, columns first.
    float64 holds its integers exactly, so the result is the same on every device."""
    h, w = image.shape[-2:]
    out = image
    if w != width:
        out = _pil_pass(out, pil_taps(w, width, image.device), -1)
    if h != height:
        out = _pil_pass(out, pil_taps(h, height, image.device), -2)
    return out


def _pil_pass(x: torch.Tensor, taps: tuple[torch.Tensor, torch.Tensor], dim: int) -> torch.Tensor:
    total = _apply(x.double(), taps, dim)
    half = float(1 << (_PIL_BITS - 1))
    return ((total + half) / float(1 << _PIL_BITS)).floor_().clamp_(0, 255).to(torch.uint8)


@lru_cache(maxsize=64)
def pil_taps(source: int, target: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """index and weight [taps, target] of Pillow's BILINEAR; weights are whole, in 1 / 2^22."""
    scale = source / target
    support = max(scale, 1.0)
    rows = []
    for i in range(target):
        centre = (i + 0.5) * scale
        low = max(int(centre - support + 0.5), 0)
        high = min(int(centre + support + 0.5), source)
        weights = [max(0.0, 1 - abs((j - centre + 0.5) / support)) for j in range(low, high)]
        total = sum(weights)
        fixed = [math.floor(0.5 + v / total * (1 << _PIL_BITS)) for v in weights]
        rows.append([(j, float(f)) for j, f in zip(range(low, high), fixed, strict=True)])
    return _pack(rows, torch.float64, device)


# -- geometry ----------------------------------------------------------------------------------
def pad_to_square(image: torch.Tensor, value: int = 0) -> torch.Tensor:
    """Centred, the odd pixel at the bottom or right."""
    h, w = image.shape[-2:]
    if h == w:
        return image
    side = max(h, w)
    top, left = (side - h) // 2, (side - w) // 2
    return F.pad(image, (left, side - w - left, top, side - h - top), value=value)


def centre_crop(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The window whose offset is floored."""
    h, w = image.shape[-2:]
    top, left = max(0, (h - height) // 2), max(0, (w - width) // 2)
    return image[..., top : top + height, left : left + width]


def images_in_order(images: Mapping[str, np.ndarray], keys: tuple[str, ...]) -> list[np.ndarray]:
    """The images of ``keys`` that are there, in that order."""
    return [images[key] for key in keys if key in images]
