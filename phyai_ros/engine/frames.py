# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera images in memory that the device reads from: a request copies none of them on the host.

Whoever takes an image out of a message puts it here, in place of any other copy. A frame is free
again when nobody holds its array any more, so its pixels stay for as long as an aligner, a history
or a request that is under way may look at them.
"""

from __future__ import annotations

import numpy as np
import torch


class Frame:
    """What a pooled array is a view of; numpy keeps it for as long as that array or a view of it
    lives. memory: uint8 [height, width, 3], pinned where the pool's is."""

    __slots__ = ("__array_interface__", "_free", "memory")

    def __init__(self, memory: torch.Tensor, free: list[torch.Tensor]):
        self.memory, self._free = memory, free
        self.__array_interface__ = memory.numpy().__array_interface__

    def __del__(self) -> None:
        self._free.append(self.memory)


def frame_of(array: np.ndarray) -> Frame | None:
    """The frame that ``array`` is, in full; None where it lies elsewhere."""
    base: object = array.base
    return base if type(base) is Frame else None


class Frames:
    """A bounded pool of frames, by image size. pinned: memory that a CUDA device reads by itself.

    Threads may put and let go at the same time: taking from a list and appending to it are one
    step each.
    """

    def __init__(self, *, pinned: bool):
        self._pinned = pinned
        self._free: dict[tuple[int, ...], list[torch.Tensor]] = {}
        self._counts: dict[tuple[int, ...], int] = {}

    def reserve(self, height: int, width: int, count: int) -> None:
        """Have ``count`` frames of this size in all. Pinning takes milliseconds: not while a
        request is under way."""
        shape = (height, width, 3)
        free = self._free.setdefault(shape, [])
        for _ in range(count - self._counts.get(shape, 0)):
            free.append(torch.empty(shape, dtype=torch.uint8, pin_memory=self._pinned))
        self._counts[shape] = max(count, self._counts.get(shape, 0))

    def put(self, image: np.ndarray) -> np.ndarray:
        """image: uint8 [height, width, 3], of any strides -> its pixels in a free frame, read-only.
        The image itself where it is in a frame already or none of its size is free: a request
        takes it from there, more slowly."""
        free = self._free.get(image.shape)
        if not free or image.dtype != np.uint8 or frame_of(image) is not None:
            return image
        try:
            memory = free.pop()
        except IndexError:  # another thread took the last
            return image
        array = np.asarray(Frame(memory, free))
        _copy(image, array)
        array.flags.writeable = False
        return array


def _copy(image: np.ndarray, out: np.ndarray) -> None:
    if image.strides[1:] == out.strides[1:]:
        np.copyto(out, image)
        return
    # Colours in another order or wider apart: numpy would go through them three bytes at a time.
    for channel in range(3):
        out[..., channel] = image[..., channel]
