# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""docs/parameters.md says what the code declares."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_parameters_in_the_docs_are_those_of_the_code():
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "parameters_doc.py"), "--check"], cwd=ROOT
    )
    assert result.returncode == 0, "run: python scripts/parameters_doc.py"
