# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""docs/performance.md says what the rows say."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location(
    "performance_doc", ROOT / "scripts/performance_doc.py"
)
doc = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(doc)
ROW = {
    "work": "pi05_48", "vision_p50_ms": 1.0, "prefix_p50_ms": 2.0, "solver_p50_ms": 3.0,
    "p50_ms": 6.0, "p99_ms": 6.1, "eager_ms": 60.0, "wanted": {"p50_ms": 11.0},
}  # fmt: skip


def test_the_file_is_what_its_rows_say():
    text = doc.FILE.read_text()
    assert doc.filled(text) == text, "run: python scripts/performance_doc.py"


@pytest.mark.parametrize(("p50", "says"), [(10.99, "11, kept"), (11.01, "11, not reached")])
def test_the_newest_row_of_a_work_is_told(tmp_path, monkeypatch, p50, says):
    monkeypatch.setattr(doc, "RESULTS", tmp_path)
    rows = [ROW, {**ROW, "p50_ms": p50}, {"work": "pi05_48_kernels"}]
    (tmp_path / "engine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = doc.filled("before\n<!-- table: where -->\nold\n<!-- end -->\nafter")
    assert f"| 1.00 | 2.00 | 3.00 | **{p50:.2f}** | 6.10 | {says} | 60.0 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter")
    assert "| pi0, 3 views, 48 tokens | | | | not measured |" in text
