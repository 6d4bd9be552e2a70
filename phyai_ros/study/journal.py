# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Finished episodes on disk, a line each, so that an interrupted study goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

_Key = tuple[str, int]


class JournalError(ValueError):
    """A journal that belongs to another study; the text names the difference."""


class Journal:
    """about: what every line depends on; a file that says something else is refused."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.rows: dict[_Key, dict[str, Any]] = {}
        header = json.loads(json.dumps(about))
        if path.exists():
            self._read(header)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written anew: a line that was cut short by a kill is gone then.
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._write(header)
        for row in self.rows.values():
            self._write(row)

    def _read(self, header: dict[str, Any]) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        found = [entry for line in lines if (entry := _parse(line)) is not None]
        if not found:
            return
        for key in {**header, **found[0]}:
            if found[0].get(key) != header.get(key):
                raise JournalError(
                    f"{self.path}: holds another study: {key} is {found[0].get(key)!r} there and "
                    f"{header.get(key)!r} here; name another --out, or remove it"
                )
        self.rows = {(row["condition"], row["seed"]): row for row in found[1:]}

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["condition"], row["seed"]] = row
        self._write(row)

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _parse(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None
