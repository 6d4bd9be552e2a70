# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A large file written so that nothing else on the machine waits for it.

A kernel without full preemption (PREEMPT_NONE, PREEMPT_VOLUNTARY) goes on with a system call to
its next resting place before a real-time thread gets the core. A write of a whole image, which a
file system with large folios gives one allocation, held it for 2 ms and more (docs/replay.md). And
a file that stays in the page cache fills the memory; then the kernel clears up, in ways as long.
"""

from __future__ import annotations

import ctypes
import io
import os
from pathlib import Path
from typing import BinaryIO

PIECE = 64 << 10
"""Bytes of one write."""
STEP = 1 << 20
"""Bytes that are sent to the disk, or forgotten, at once."""
LAG = 32 << 20
"""Bytes behind the end of the file at which they are forgotten: on the disk by then, where it is
quick enough; what is not stays in the cache."""

_SYNC_FILE_RANGE_WRITE = 2  # fcntl.h
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class _SmallWrites(io.FileIO):
    def write(self, data) -> int | None:  # type: ignore[no-untyped-def, override]
        return super().write(memoryview(data).cast("B")[:PIECE])


def open_small(path: Path, at: int) -> BinaryIO:
    """An existing file to write from byte ``at`` on, never more than ``PIECE`` bytes at once."""
    file = io.BufferedWriter(_SmallWrites(path, "r+"), PIECE)
    file.seek(at)
    return file


class WriteBehind:
    """Keeps what is written to a file moving to the disk and out of the page cache, from beside the
    one who writes it. Raises OSError where the file cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._sent = 0

    def advance(self) -> None:
        """After a write. Waits only where the disk's own queue is full."""
        size = os.fstat(self._file).st_size
        while size - self._sent >= STEP:
            if _sync_file_range is not None:  # else the kernel begins when it likes
                _sync_file_range(self._file, self._sent, STEP, _SYNC_FILE_RANGE_WRITE)
            if self._sent >= LAG:
                old = self._sent - LAG
                os.posix_fadvise(self._file, old, STEP, os.POSIX_FADV_DONTNEED)
            self._sent += STEP

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
