# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a long run has heard, on the disk instead of in memory until its end."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BATCH = 256
"""Entries that leave a list at once; between one and two of these stay."""


class Archive:
    """directory: of the file, which has no name and goes with this process. A disk that is full
    costs memory, not entries: they stay in their list until there is room."""

    def __init__(self, directory: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self._end = 0

    def trim(self, lists: Mapping[str, list[Any]]) -> None:
        """Move the oldest entries out of every list (by name) that has two batches."""
        for name, entries in lists.items():
            while len(entries) >= 2 * BATCH:
                try:
                    self._file.seek(self._end)
                    pickle.dump((name, entries[:BATCH]), self._file)
                    self._file.flush()
                except OSError:
                    return
                self._end = self._file.tell()
                del entries[:BATCH]

    def restore(self, lists: Mapping[str, list[Any]]) -> None:
        """Put everything back in front of what the lists have kept. Ends the archive."""
        moved: dict[str, list[Any]] = {name: [] for name in lists}
        self._file.seek(0)
        while self._file.tell() < self._end:
            # Written by this process into a file that nobody else can open.
            name, entries = pickle.load(self._file)
            moved[name] += entries
        for name, entries in lists.items():
            entries[:0] = moved[name]
        self._file.close()
