# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A folder that takes no file costs no outcome: it is told first, then what was not written."""

import json
import os

import pytest

from phyai_ros.tools import soak, study, writing
from phyai_ros.tools.cli import main

LOAD = ("--inference-ms", "36", "--horizon", "10", "--execution-horizon", "10", "--rate", "20")
CHECK = ("check", "--checkpoint", "act_aloha_small", "--batch", "1")
OUTCOMES = {
    "roofline": (("roofline", *LOAD), "464 ms of slack", "--png", "roofline.png"),
    "check": (CHECK, "checks: 10, failed: 0", "--json", "check.json"),
}


@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parametrize("asked", [False, True])
def test_a_current_folder_that_takes_no_file(name, asked, monkeypatch, capfd):
    words, outcome, option, usual = OUTCOMES[name]
    monkeypatch.chdir("/proc")
    file = f"mine{usual[usual.index('.') :]}" if asked else usual
    status = main([*words, option, file] if asked else words)
    said = "".join(capfd.readouterr())
    assert outcome in said
    assert f"/proc/{file} not written: No such file or directory; {option} FILE puts it" in said
    assert status == (1 if asked else 0)
    assert "Traceback" not in said


def test_where_files_can_be_written_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = tmp_path / "deep" / "numbers.json"
    assert main(["roofline", *LOAD, "--json", str(numbers)]) == 0
    assert (tmp_path / "roofline.png").stat().st_size > 10_000
    assert json.loads(numbers.read_text())[0]["bound"] == "environment"


def test_a_picture_of_no_known_kind(tmp_path, capsys):
    assert main(["roofline", *LOAD, "--png", str(tmp_path / "mine.word")]) == 1
    said = capsys.readouterr()
    assert "464 ms of slack" in said.out
    assert "mine.word not written: expected a name ending in one of" in said.err
    assert "png" in said.err


def test_a_failed_check_is_one_wherever_its_file_goes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir("/proc")
    assert main(["check", "--checkpoint", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.index("failed: 1") < said.index("/proc/check.json not written")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (lambda: study.main(["--checkpoint", "expert", "--episodes", "1"]), "--out DIR names"),
        (lambda: soak.main([]), "--out /proc/runs/soak: no folder there: No such file"),
    ],
)
def test_a_folder_that_cannot_be_made_is_refused_before_the_work(
    command, says, monkeypatch, capsys
):
    monkeypatch.chdir("/proc")
    assert command() == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


def test_a_study_is_shown_before_its_files_and_goes_on_from_its_journal(
    tmp_path, monkeypatch, capsys
):
    words = ["--checkpoint", "expert", "--task", "follow", "--delay-ms", "0", "--time-limit", "1"]
    words += ["--handoff", "replace", "--episodes", "1", "--out", str(tmp_path)]
    (tmp_path / "study.md").mkdir()
    assert study.main(words) == 1
    said = capsys.readouterr()
    assert "replace" in said.out
    error = said.err.replace("\n", " ")
    assert f"{tmp_path}/study.md not written" in error
    assert f"the same command with --out {tmp_path} writes the rest" in error
    (tmp_path / "study.md").rmdir()
    assert study.main(words) == 0
    assert "1 of 1 episode done already" in capsys.readouterr().err


def test_why():
    assert writing.why(FileExistsError(17, "File exists")) == "it is, or lies in, a file"
    assert writing.why(OSError(28, os.strerror(28))) == "No space left on device"
