# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A disk of its own that can be filled: a tmpfs where this process may mount one."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from pathlib import Path

PREPARED = 32 << 20
STEP = 4096


class Disk:
    """path: where runs and bags go. limited: whether it is a tmpfs of ``size`` bytes. Where that is
    not allowed, ``fill`` limits the size of files of the processes given instead: their writes fail
    in the same place, with another error."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._ballast = path / "ballast"
        self._limits: list[tuple[int, tuple[int, int]]] = []
        path.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "phyai_soak", str(path)]
        try:
            self.limited = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.limited = False

    def prepare(self) -> None:
        """Nearly full: to give out the pages takes a moment, and the fault shall begin at once."""
        if self.limited:
            free = shutil.disk_usage(self.path).free - PREPARED
            with self._ballast.open("wb", buffering=0) as file:
                os.posix_fallocate(file.fileno(), 0, max(free, 1))

    def fill(self, pids: list[int]) -> None:
        """No byte is free any more. pids: of who writes there."""
        if not self.limited:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
                    self._limits.append((pid, before))
            return
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(STEP))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)
        for pid, limit in self._limits:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
        self._limits = []

    def close(self) -> None:
        """Unmount; nothing may be open there any more."""
        self.free()
        if self.limited:
            subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True, check=False)
