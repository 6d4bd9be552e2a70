# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A request's way onto the device: host arrays, side by side in one pinned buffer, in one copy;
camera images one by one, from where they are if that is pinned memory (``frames.py``).

An adapter whose ``prepare`` is two parts, ``stage`` on the host and ``place`` on the device (see
``models/base.py``), has the second captured with the copy in front of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phyai_ros.engine.frames import frame_of
from phyai_ros.engine.structure import Fixed, flatten, replace

_ALIGN = 256
"""Bytes; what the fastest copies and the widest loads of any device ask for."""


class Stack:
    """Arrays of one shape and dtype, to lie side by side on the device: [len, *shape]. They are
    read when the request is written, not copied before. rows: of each array, those that travel;
    None for all, and where every array is a frame: to copy none on the host is worth more."""

    STACK = True

    def __init__(self, arrays: Sequence[np.ndarray], rows: np.ndarray | None = None):
        self.arrays = tuple(arrays)
        if rows is not None and all(frame_of(array) is not None for array in self.arrays):
            rows = None
        self.rows = rows
        height, *rest = self.arrays[0].shape
        self.shape = (len(self.arrays), height if rows is None else len(rows), *rest)
        self.dtype = self.arrays[0].dtype

    def write(self, out: np.ndarray) -> None:
        for place, array in zip(out, self.arrays, strict=True):
            _write(array, self.rows, place)


def _write(array: np.ndarray, rows: np.ndarray | None, out: np.ndarray) -> None:
    if rows is None:
        np.copyto(out, array)
    else:  # no row is out of range; "raise" would go through a buffer
        np.take(array, rows, axis=0, out=out, mode="clip")


class Seat:
    """Room for one image of a stack, on the host and on the device. rows: as the stack's."""

    def __init__(self, rows: np.ndarray | None, host: torch.Tensor, device: torch.Tensor):
        self._rows, self._host, self._device = rows, host, device
        self._array = host.numpy()

    def send(self, image: np.ndarray) -> None:
        """A copy onto the device, from ``image`` itself if it is a frame: hold it until the device
        has come so far. Does not make the host wait."""
        frame = frame_of(image) if self._rows is None else None
        if frame is None:
            _write(image, self._rows, self._array)
        self._device.copy_(self._host if frame is None else frame.memory, non_blocking=True)


Host = np.ndarray | torch.Tensor | Stack
"""What a staged request is made of."""


@dataclass(frozen=True)
class Grouped:
    """Images by their size. stacks: [images, rows, W, 3] of each size. places: where each image of
    each stack belongs. heights: of each stack's images; more than its rows where not all travel."""

    stacks: tuple[Any, ...]
    places: tuple[tuple[tuple[int, int], ...], ...]
    heights: tuple[int, ...]

    @staticmethod
    def of(
        images: Iterable[tuple[tuple[int, int], np.ndarray]],
        rows: Callable[[int, int], np.ndarray | None] = lambda height, width: None,
    ) -> Grouped:
        """images: (place, uint8 [H, W, 3]) in any order. rows: of an image of this height and width
        those that are looked at, None for all."""
        groups: dict[tuple[int, ...], list[tuple[tuple[int, int], np.ndarray]]] = {}
        for place, image in images:
            groups.setdefault(image.shape, []).append((place, image))
        return Grouped(
            tuple(
                Stack([image for _, image in group], rows(*shape[:2]))
                for shape, group in groups.items()
            ),
            Fixed(tuple(place for place, _ in group) for group in groups.values()),
            Fixed(shape[0] for shape in groups),
        )


class Staging:
    """Room for one structure of host arrays: pinned on the host, and as large on the device.

    ``host`` and ``device`` hold one tensor an array, views of either buffer.
    """

    def __init__(self, leaves: Sequence[Host], device: torch.device):
        starts, size = [], 0
        for leaf in leaves:
            starts.append(size)
            size += -(-_bytes(leaf) // _ALIGN) * _ALIGN
        pinned = device.type == "cuda"
        self._host = torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=pinned)
        self._device = torch.empty(max(size, 1), dtype=torch.uint8, device=device)
        self.device = [
            _view(self._device, leaf, at) for leaf, at in zip(leaves, starts, strict=True)
        ]
        host = [_view(self._host, leaf, at) for leaf, at in zip(leaves, starts, strict=True)]
        self._rows = [view.numpy() for view in host]
        self.seats = [
            Seat(leaf.rows, *seat)
            for leaf, *views in zip(leaves, host, self.device, strict=True)
            if isinstance(leaf, Stack)
            for seat in zip(*views, strict=True)
        ]
        """Of every image of every stack, to be sent one by one."""

    def write(self, leaves: Sequence[Host]) -> None:
        """Fill the pinned buffer. The copy of the request before must have ended."""
        for out, leaf in zip(self._rows, leaves, strict=True):
            if isinstance(leaf, Stack):
                leaf.write(out)
            else:
                np.copyto(out, leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf)

    def upload(self) -> None:
        """One copy; does not make the host wait."""
        self._device.copy_(self._host, non_blocking=True)


def whole(images: Any) -> Any:
    """A structure of stacks as it is where all of them are in frames: with every row."""
    stacks, _ = flatten(images)
    return replace(images, iter([Stack(stack.arrays) for stack in stacks]))


def upload(staged: Any, device: torch.device) -> Any:
    """``staged`` with its arrays as tensors on ``device``, through one copy; on the CPU they are
    used where they are, where torch can hold them."""
    leaves, _ = flatten(staged)
    if device.type == "cpu":
        return replace(staged, iter([_tensor(leaf) for leaf in leaves]))
    room = Staging(leaves, device)
    room.write(leaves)
    room.upload()
    return replace(staged, iter(room.device))


def _tensor(leaf: Host) -> torch.Tensor:
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, Stack):
        array = np.empty(leaf.shape, leaf.dtype)
        leaf.write(array)
    else:
        array = leaf
    if not array.flags.writeable or any(s < 0 for s in array.strides):
        array = array.copy()  # torch can hold neither
    return torch.from_numpy(array)


def _torch_dtype(leaf: Host) -> torch.dtype:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype
    return torch.from_numpy(np.empty(0, leaf.dtype)).dtype


def _bytes(leaf: Host) -> int:
    return math.prod(leaf.shape) * _torch_dtype(leaf).itemsize


def _view(buffer: torch.Tensor, leaf: Host, at: int) -> torch.Tensor:
    return buffer[at : at + _bytes(leaf)].view(_torch_dtype(leaf)).view(tuple(leaf.shape))
