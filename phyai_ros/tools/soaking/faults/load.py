# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Busy processes on every core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from phyai_ros.tools.supervise import dies_with_parent


class Hogs:
    """One a core, at the priority of everybody, until ``end``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        words = [*dies_with_parent(), sys.executable, "-c", "while True: pass"]
        count = len(os.sched_getaffinity(0))
        self._processes = [subprocess.Popen(words, env=dict(environment)) for _ in range(count)]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
