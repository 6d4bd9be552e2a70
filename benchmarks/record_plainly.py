# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros record`` with its file written as any program would: each chunk with one write, pages
left to the page cache. What benchmarks/record_jitter.py compares the recorder with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from phyai_ros.bags import write_behind, writer
from phyai_ros.tools import record


def open_plainly(path: Path, at: int) -> BinaryIO:
    file = path.open("r+b")
    file.seek(at)
    return file


if __name__ == "__main__":
    writer.open_small = open_plainly
    write_behind.WriteBehind.advance = lambda self: None  # type: ignore[method-assign]
    sys.exit(record.main(sys.argv[1:]))
