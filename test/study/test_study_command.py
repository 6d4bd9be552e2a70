# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros study`` as a user runs it, with the scripted expert: files, resuming, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from phyai_ros.tools import study

WORDS = ["--checkpoint", "expert", "--task", "follow", "--delay-ms", "0,400", "--time-limit", "4"]


def run(out, *words, wanted=0):
    assert study.main([*WORDS, "--episodes", "2", "--out", str(out), *words]) == wanted


def test_two_runs_write_the_same_bytes_in_one_process_or_in_two(tmp_path):
    methods = ("--handoff", "replace,synchronous")
    run(tmp_path / "a", *methods)
    run(tmp_path / "b", *methods, "--jobs", "2")
    for name in ("study.json", "study.md", "study_s8.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    result = json.loads((tmp_path / "a" / "study.json").read_text())
    assert [(e["handoff"], e["delay"]) for e in result["conditions"]] == [
        ("replace", "0 ms"),
        ("synchronous", "0 ms"),
        ("replace", "400 ms"),
        ("synchronous", "400 ms"),
    ]
    assert all(e["episodes"] == 2 for e in result["conditions"])


def test_what_is_named_twice_is_run_once(tmp_path, capsys):
    words = ("--handoff", "replace,replace", "--delay-ms", "0,0", "--horizon", "8,8")
    run(tmp_path, *words, "--episodes", "1")
    assert len(_rows(tmp_path)) == 1
    assert "1 episode, " in capsys.readouterr().err
    run(tmp_path, *words, "--episodes", "1")
    assert "1 of 1 episode done already" in capsys.readouterr().err


def test_all_leaves_out_what_the_policy_cannot_do_and_says_so(tmp_path, capsys):
    run(tmp_path / "a", "--handoff", "all", "--episodes", "1")
    said = capsys.readouterr()
    assert "cannot be guided by rtc_identity" in said.err
    names = {
        e["handoff"] for e in json.loads((tmp_path / "a/study.json").read_text())["conditions"]
    }
    assert names == {"synchronous", "replace", "blend", "ensemble"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_study_goes_on_where_it_was(tmp_path, number):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "phyai_ros.tools", "study", *WORDS, "--jobs", "2"]
    command += ["--handoff", "replace,blend", "--episodes", "40", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        while process.poll() is None and not _rows(out):
            signal.sigtimedwait([signal.SIGUSR2], 0.1)  # no busy wait
        assert _rows(out), process.stderr.read()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert "goes on from there" in said
    done = _rows(out)
    assert 0 < len(done) < 160
    study.main([*WORDS, "--handoff", "replace,blend", "--episodes", "2", "--out", str(out)])
    assert _rows(out)[: len(done)] == done  # nothing was done twice
    whole = tmp_path / "whole"
    study.main([*WORDS, "--handoff", "replace,blend", "--episodes", "2", "--out", str(whole)])
    assert (out / "study.json").read_bytes() == (whole / "study.json").read_bytes()


@pytest.mark.parametrize("more", [("--checkpoint", "expert"), ()])
def test_a_study_is_of_any_simulated_robot_and_its_own_model(tmp_path, more):
    """ALOHA's chunks, joints and cube are not the UR10e's; what answers is what comes with it."""
    words = ["--robot", "aloha", "--delay-ms", "100", "--handoff", "replace", "--episodes", "1"]
    assert study.main([*words, *more, "--horizon", "20", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "study.json").read_text())
    assert result["robot"] == "aloha"
    assert result["model"] == ("expert" if more else "act")
    assert result["chunk_horizon"] == (40 if more else 50)
    (entry,) = result["conditions"]
    assert entry["successes"] == 1
    assert entry["starved_ticks"] == 0
    assert entry["delay_ticks"] == 5


def test_a_robot_with_other_joints_than_the_simulated_one_is_refused_by_name(tmp_path, capsys):
    file = tmp_path / "more.yaml"
    joint = "{position: [-1, 1], velocity: 1, acceleration: 5}"
    file.write_text(f"extends: ur10e\njoints: {{extra: {joint}}}\n")
    run(tmp_path / "out", "--robot", str(file), wanted=2)
    said = " ".join(capsys.readouterr().err.split())
    assert f"{file}: joints: expected those of the simulated ur10e, ['shoulder_pan_joint'" in said
    assert "'extra']" in said


def test_a_checkpoint_of_another_family_than_the_models_is_told_so(tmp_path, capsys):
    """Nobody had named a family; the model file had."""
    words = ("--checkpoint", "pi05_ur10e_small", "--model", "gr00t")
    run(tmp_path / "out", *words, wanted=2)
    said = " ".join(capsys.readouterr().err.split())
    assert "gr00t.yaml: family: gr00t_n17, but" in said
    assert "that it is pi05; the models of that family: pi05; name one with --model" in said


def _rows(out):
    path = out / "episodes.jsonl"
    return path.read_text().splitlines()[1:] if path.exists() else []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--handoff", "rtc"), "handoff: expected one of ['blend', 'ensemble'"),
        (("--handoff", "seam"), "'seam' needs a policy that can be guided so; expert can do"),
        (("--horizon", "17"), "--horizon: expected 1 to 16, found 17"),
        (("--horizon", "many"), "--horizon: expected whole numbers"),
        (("--delay-ms", "soon"), "delay 'soon': expected milliseconds"),
        (("--speed", "0"), "the task follow needs a speed above 0"),
        (("--speed", "9"), "conveyor speed 9.0 m/s"),
        (("--robot", "ur11"), "ur11"),
        (("--robot", "aloha"), "unknown task 'follow'; the simulated aloha has reach"),
        (("--robot", "aloha", "--task", "reach", "--speed", "0.1"), "aloha has no conveyor"),
        (("--image-age-ms", "50"), "expected less than a control period, 50 ms, found 50 ms"),
        (("--time-limit", "0.001"), "--time-limit: expected more than 0.4 s, before which no seco"),
        (("--horizon", "4,16", "--time-limit", "0.8"), "expected more than 0.8 s"),
        (("--handoff", ","), "--handoff: expected at least one"),
        (("--delay-from", "/nowhere.json"), "/nowhere.json: No such file"),
    ],
)
def test_refusals_say_what_is_expected(tmp_path, capsys, words, text):
    run(tmp_path / "out", *words, wanted=2)
    assert text in capsys.readouterr().err
