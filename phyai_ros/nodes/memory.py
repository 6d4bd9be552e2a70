# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Freed memory stays with the process.

glibc gives the pages of a freed image back to the kernel and gets them again, zeroed and one fault
at a time, for the next one: half a millisecond for 0.9 MB where copying takes a twentieth of that
(measured). The middleware and rclpy each allocate every image once.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGEST_MMAP_THRESHOLD = 32 * 2**20  # glibc accepts no more on 64-bit systems
_KEEP = 512 * 2**20


def keep_freed_memory() -> bool:
    """Keep up to 512 MB of freed memory for reuse; False where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEEP) and kept)


def one_arena() -> bool:
    """One heap for all threads: each new thread would otherwise begin one of its own, of which what
    was used once stays. For a process whose threads come and go. False where this is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt is not None and mallopt(_M_ARENA_MAX, 1))
