# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A child's output: all of it to a file, warnings and errors to people."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path

_TAGGED = re.compile(r"^\[(DEBUG|INFO|WARN|ERROR|FATAL)\] (?:\[[\d.]+\] )?\[[^\]]*\]: (.*)$")
_LEVELS = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ChildLog:
    """Lines of one child. A line without ROS's tag belongs to the tagged one before it; outside a
    warning or error only a traceback or an ``error:`` line is for people."""

    def __init__(self, path: Path, source: str, notice: Callable[[str, str, str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._path, self._source, self._notice = path, source, notice
        self._lost = False
        self.quiet = False
        self._level = ""
        self._tail: deque[str] = deque(maxlen=15)
        self._shown_error = False
        self.last_error = ""
        """The newest error in one line; of a traceback the line that names it."""

    def write(self, line: bytes | str) -> None:
        """One line with its end."""
        if isinstance(line, bytes):
            line = line.decode("utf-8", errors="replace")
        line = _COLOUR.sub("", line.rstrip("\n"))
        self._keep(line)
        self._tail.append(line)
        text = line
        if match := _TAGGED.match(line):
            self._level, text = _LEVELS.get(match[1], ""), match[2]
            if self._level == "error":
                self.last_error = text
        elif line.startswith(("Traceback ", "error:")):
            self._level = "error"
            self.last_error = line.removeprefix("error:").strip()
        elif self.last_error.startswith("Traceback ") and line and not line[0].isspace():
            self.last_error = line
        if self._level and not self.quiet:
            self._shown_error |= self._level == "error"
            self._notice(self._level, text, self._source)

    def show_tail_if_silent(self) -> None:
        """The last lines, where the child ended without an error that people have seen."""
        if not self._shown_error:
            for line in self._tail:
                self._notice("error", line, self._source)
        self._notice("info", f"its whole log: {self._path}", self._source)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()

    def _keep(self, line: str) -> None:
        """A log that cannot be written must not end whoever watches the children."""
        try:
            self._file.write(line + "\n")
        except OSError as error:
            if not self._lost:
                text = f"{self._path}: {error.strerror}; lines are lost until it can be written"
                self._notice("warning", text, self._source)
            self._lost = True
        else:
            self._lost = False
