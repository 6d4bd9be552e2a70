# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros.study.journal import Journal, JournalError

ROWS = [{"condition": "replace | 8 | 0 ms", "seed": s, "success": True} for s in range(3)]


def test_rows_come_back_and_a_line_cut_short_does_not(tmp_path):
    path = tmp_path / "out" / "episodes.jsonl"
    journal = Journal(path, {"task": "follow"})
    for row in ROWS:
        journal.add(row)
    journal.close()
    with path.open("a") as file:
        file.write('{"condition": "repl')
    again = Journal(path, {"task": "follow"})
    again.close()
    assert list(again.rows.values()) == ROWS
    assert len(path.read_text().splitlines()) == 1 + len(ROWS)


def test_another_study_is_refused_by_what_differs(tmp_path):
    path = tmp_path / "episodes.jsonl"
    Journal(path, {"task": "follow", "speed": 0.04}).close()
    with pytest.raises(JournalError, match=r"speed is 0\.04 there and 0\.05 here; name another"):
        Journal(path, {"task": "follow", "speed": 0.05})
    with pytest.raises(JournalError, match="weights is None there"):
        Journal(path, {"task": "follow", "speed": 0.04, "weights": "ab"})
