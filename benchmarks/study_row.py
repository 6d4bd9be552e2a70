# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Keep the result of a `phyai-ros study` as a row of benchmarks/results/studies.jsonl.

python benchmarks/study_row.py runs/study_x/study.json "phyai-ros study --task follow ..."
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import record


def main() -> None:
    path, command = Path(sys.argv[1]), sys.argv[2]
    result = json.loads(path.read_text(encoding="utf-8"))
    entry = record.row(f"study_{result['task']}", {"study": result})
    entry["command"] = command
    record.save("studies.jsonl", entry)
    print(f"{len(result['conditions'])} conditions of {result['episodes']} episodes kept")


if __name__ == "__main__":
    main()
