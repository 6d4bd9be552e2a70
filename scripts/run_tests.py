# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The test suite in two passes: what only computes, side by side; what measures or talks, alone.

    python scripts/run_tests.py [--fast] [pytest arguments]

A control loop that shares its cores with another test's inference says nothing about the loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALONE = ("test/integration", "test/closed_loop", "test/launch", "test/tools")
SWEEP = "from phyai_ros.tools import shared_memory; shared_memory.sweep()"
NO_TESTS = 5
"""pytest's exit status when nothing was selected."""


def main() -> int:
    words = sys.argv[1:]
    fast = "--fast" in words
    words = [word for word in words if word != "--fast"]
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", "1")
    # As scripts/env.sh: where this package is installed, and room for camera images.
    installed = os.pathsep.join((str(ROOT / ".build" / "install"), sys.prefix))
    environment.setdefault("AMENT_PREFIX_PATH", installed)
    environment.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(ROOT / "config" / "fastdds.xml"))
    base = [sys.executable, "-m", "pytest", *(["-m", "not slow"] if fast else []), *words]
    alone = [folder for folder in ALONE if (ROOT / folder).is_dir()]
    passes = [
        [*base, "-n", "2", "test", *(f"--ignore={folder}" for folder in alone)],
        [*base, *alone],
    ]
    status = 0
    for command in passes:
        # Tests kill nodes on purpose; what those leave in shared memory adds up over runs.
        subprocess.call([sys.executable, "-c", SWEEP], cwd=ROOT, env=environment)
        result = subprocess.call(command, cwd=ROOT, env=environment)
        status = status or (0 if result == NO_TESTS else result)
    return status


if __name__ == "__main__":
    sys.exit(main())
