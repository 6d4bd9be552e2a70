# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What stands beside the code is installed with it."""

from __future__ import annotations

import configparser
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_beside_the_code_is_package_data() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = [
        pattern.strip()
        for value in config["options.package_data"].values()
        for pattern in value.split(",")
    ]
    beside = [
        path
        for path in (ROOT / "phyai_ros").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert any(path.suffix == ".cu" for path in beside)
    left_out = [
        str(path.relative_to(ROOT))
        for path in beside
        if "checkpoints" not in path.parts and not any(fnmatch(path.name, p) for p in patterns)
    ]
    assert left_out == []
