# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The front of the benchmarks: what it runs, and what it makes of rows and failures."""

from __future__ import annotations

import json
import textwrap

import pytest

from phyai_ros.tools import bench

ROW = {
    "benchmark": "example",
    "what": "counting to three",
    "p50_ms": 3.5,
    "ours": {"p50_ms": 3.5, "sets": 10},
    "wanted": {"p50_ms_at_most": 4.0},
    "passed": True,
    "device": {"cpu": "a CPU", "cores": 2, "load_before": 0.1},
    "commit": "0123456789ab",
}


def program(folder, body):
    path = folder / "benchmarks" / "example.py"
    path.parent.mkdir()
    path.write_text(textwrap.dedent(body))
    return path


def test_every_benchmark_is_a_program_of_the_tree():
    folder = bench.find()
    assert folder is not None
    for name in (*bench.BENCHMARKS, *bench.ON_GPU):
        assert (folder / f"{name}.py").is_file(), name


def test_the_last_line_is_the_row_and_the_status_says_whether_bounds_were_kept(tmp_path):
    path = program(
        tmp_path,
        f"""
        import sys
        print("starting")
        print({json.dumps(ROW)!r})
        sys.exit(1)
        """,
    )
    assert bench.run(path) == (ROW, 1, "")


def test_a_benchmark_that_breaks_gives_no_row_but_its_error(tmp_path):
    entry, status, errors = bench.run(program(tmp_path, "raise RuntimeError('no camera')"))
    assert (entry, status) == (None, 1)
    assert "no camera" in errors


@pytest.mark.parametrize(("passed", "says"), [(True, "example: kept"), (False, "NOT KEPT")])
def test_a_row_for_people(passed, says):
    text = bench.render({**ROW, "passed": passed})
    assert says in text
    assert "p50_ms 3.5, sets 10" in text
    assert "p50_ms_at_most 4.0" in text
    assert "a CPU, 2 cores, load 0.1, commit 0123456789ab" in text


def test_a_benchmark_of_a_gpu_takes_its_own_options(capfd):
    assert bench.main(["engine", "--work", "pi06"]) == 2
    assert "no work pi06; there are: pi05_48" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["ingest", "engine"])
    assert "engine is run alone" in capfd.readouterr().err


def test_an_unknown_name_lists_what_there_is(capsys):
    with pytest.raises(SystemExit) as end:
        bench.main(["speed"])
    assert end.value.code == 2
    assert "no benchmark speed; there are: ingest, handoff" in capsys.readouterr().err
