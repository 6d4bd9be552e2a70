# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Shared memory that killed DDS processes left behind.

A Fast DDS participant holds a segment in /dev/shm (here 35 MB, so that images fit) and a lock
file beside it, ``<segment>_el``, which it keeps locked as long as it lives. A killed process frees
neither; enough of them fill the machine's memory. ``fastdds shm clean`` does the same where Fast
DDS's own tool is installed.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

_LOCK = re.compile(r"fastdds_[0-9a-f]{16}_el")
FOLDER = Path("/dev/shm")
YOUNG = 2.0
"""Seconds for which a lock file is left alone. A starting process creates it first and locks it
then; until 2.14 (Jazzy) Fast DDS does not notice when it is removed between the two, and what the
process sends is thrown away by all others for the rest of its life, for its segment counts as a
dead one's."""


def sweep(folder: Path = FOLDER) -> int:
    """Remove the segments without a living owner that this user may remove; bytes freed."""
    freed = 0
    if not folder.is_dir():
        return freed
    for lock in folder.iterdir():
        if not _LOCK.fullmatch(lock.name):
            continue
        with suppress(OSError):  # somebody else's, or gone meanwhile
            freed += _remove(lock)
    return freed


def _remove(lock: Path) -> int:
    handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(handle).st_mtime < YOUNG:
            return 0
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while the owner lives
        segment = lock.with_name(lock.name.removesuffix("_el"))
        size = segment.stat().st_blocks * 512 if segment.exists() else 0
        segment.unlink(missing_ok=True)
        lock.unlink()
        return size
    finally:
        os.close(handle)
