# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""docs/reports.md names tests; every one of them is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_test_that_the_document_names_exists():
    named = NAMED.findall((ROOT / "docs" / "reports.md").read_text())
    assert len(named) > 80
    for file in {file for file, _ in named}:
        tree = ast.parse((ROOT / "test" / file).read_text())
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        missing = {test for named_in, test in named if named_in == file} - there
        assert not missing, f"{file}: {missing}"


def test_every_line_of_a_table_names_a_test():
    rows = [
        line
        for line in (ROOT / "docs" / "reports.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| report |", "| input |", "| attempt |"))
    ]
    assert len(rows) > 55
    assert [row for row in rows if not NAMED.search(row)] == []
