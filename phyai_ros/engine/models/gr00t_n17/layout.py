# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The token layout of a batch: ids, padding, multimodal positions and where the images go.

A function of the prompts and the image sizes alone, made on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from phyai_ros.engine.models.gr00t_n17.vision import Grid


@dataclass(frozen=True)
class Layout:
    """Tensors of a batch of B prompts of at most L tokens.

    ids [B, L] int64, left padded. real [B, L] bool, False = padding. positions [3, B, L] int64.
    image_mask [B, L] bool. image_index [image tokens] int64, into the flattened [B*L].
    padded: whether any row is. grids: of every image, in order.
    """

    ids: torch.Tensor
    real: torch.Tensor
    positions: torch.Tensor
    image_mask: torch.Tensor
    image_index: torch.Tensor
    padded: bool
    grids: tuple[Grid, ...]


def from_ids(
    ids: np.ndarray,
    real: np.ndarray,
    grids: Sequence[Grid],
    *,
    image_token: int,
    merge: int,
    device: torch.device,
) -> Layout:
    """ids [B, L] with one image token for each merge x merge patches, real [B, L] bool."""
    image_mask = ids == image_token
    remaining = iter(grids)
    positions = np.zeros((3, *ids.shape), np.int64)
    for b in range(ids.shape[0]):
        kept = real[b]
        positions[:, b, kept] = _positions(image_mask[b][kept], remaining, merge)
    return Layout(
        ids=torch.from_numpy(ids).to(device),
        real=torch.from_numpy(real).to(device),
        positions=torch.from_numpy(positions).to(device),
        image_mask=torch.from_numpy(image_mask).to(device),
        image_index=torch.from_numpy(np.flatnonzero(image_mask)).to(device),
        padded=not bool(real.all()),
        grids=tuple(grids),
    )


def _positions(is_image: np.ndarray, grids: object, merge: int) -> np.ndarray:
    """[3, length] of one unpadded prompt. Text advances all three axes; an image of h x w tokens
    that starts at p has temporal p, height p + row, width p + column, and the next token stands at
    p + max(h, w)."""
    out = np.zeros((3, len(is_image)), np.int64)
    at, i = 0, 0
    while i < len(is_image):
        if not is_image[i]:
            out[:, i] = at
            at, i = at + 1, i + 1
            continue
        h, w = (n // merge for n in next(grids))  # type: ignore[call-overload]
        rows, columns = np.divmod(np.arange(h * w), w)
        block = slice(i, i + h * w)
        out[0, block], out[1, block], out[2, block] = at, at + rows, at + columns
        at, i = at + max(h, w), i + h * w
    return out
