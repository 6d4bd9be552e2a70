# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Processes of a run that are not ``up``'s: each with a log, none outlives its parent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phyai_ros.tools.supervise import dies_with_parent


class Child:
    """A Python process ``python -m words...``. log: appended to. on_line: called with each JSON
    object it prints, on a thread; without it, what it prints goes to the log too."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        on_line: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*dies_with_parent(), sys.executable, "-m", *words],
                env=dict(environment),
                stdin=subprocess.PIPE if on_line else subprocess.DEVNULL,
                stdout=subprocess.PIPE if on_line else file,
                stderr=file,
                start_new_session=True,
            )
        if on_line is not None:
            thread = threading.Thread(target=self._read, args=(on_line,), daemon=True)
            thread.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tell(self, command: Mapping[str, Any]) -> None:
        """A line on its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, number: signal.Signals, patience: float) -> bool:
        """Ask it to end; whether it did within ``patience`` s. It is gone afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def _read(self, on_line: Callable[[dict[str, Any]], None]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a library's own words
                on_line(json.loads(line))
