# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Numbers and names that a command cannot mean are wrong usage, before anything is started."""

import pytest

from phyai_ros.tools import (
    check,
    handoff,
    info,
    init_robot,
    play,
    record,
    replay,
    roofline,
    security,
    soak,
    study,
)

CHECKPOINT = ("--checkpoint", "gr00t_ur10e_small")
BAG = ("bag", "--checkpoint", "gr00t_ur10e_small", "--robot", "ur10e")


@pytest.mark.parametrize(
    ("main", "words", "says"),
    [
        (record.main, ("--duration", "-3"), "--duration: expected a number from 0, found -3"),
        (record.main, ("--duration", "nan"), "--duration: expected a number from 0, found nan"),
        (record.main, ("--split", "-1"), "--split: expected at least 0, found -1"),
        (record.main, ("--queue", "0"), "--queue: expected at least 1, found 0"),
        (record.main, ("--reserve", "x"), "--reserve: expected a whole number, found 'x'"),
        (record.main, ("--topics", "/tf", "/a b"), "--topics: expected names as /tf, found '/a b'"),
        (record.main, ("--topics", "/a//b"), "--topics: expected names as /tf, found '/a//b'"),
        (play.main, ("bag", "--duration", "-1"), "--duration: expected a number from 0, found -1"),
        (play.main, ("bag", "--delay", "nan"), "--delay: expected a number from 0, found nan"),
        (replay.main, (*BAG, "--delay", "nan"), "--delay: expected a number from 0, found nan"),
        (replay.main, (*BAG, "--tolerance", "-1"), "expected a number from 0, found -1"),
        (study.main, ("--jobs", "0"), "--jobs: expected at least 1, found 0"),
        (study.main, ("--seed", "-1"), "--seed: expected at least 0, found -1"),
        (study.main, ("--time-limit", "nan"), "--time-limit: nan: expected a number above 0"),
        (study.main, ("--time-limit", "0"), "--time-limit: 0: expected a number above 0"),
        (soak.main, ("--domain", "500"), "--domain: expected 0 to 232, found 500"),
    ],
)
def test_it_is_wrong_usage_in_one_sentence(main, words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("main", "words", "option"),
    [
        (check.main, (*CHECKPOINT, "--robot", ""), "--robot"),
        (check.main, (*CHECKPOINT, "--model", ""), "--model"),
        (check.main, (*CHECKPOINT, "--fixture", ""), "--fixture"),
        (check.main, (*CHECKPOINT, "--json", ""), "--json"),
        (info.main, (*CHECKPOINT, "--family="), "--family"),
        (info.main, (*CHECKPOINT, "--embodiment", ""), "--embodiment"),
        (info.main, (*CHECKPOINT, "--revision", ""), "--revision"),
        (init_robot.main, (*CHECKPOINT, "--out", ""), "--out"),
        (replay.main, ("", *BAG[1:]), "BAG"),
        (replay.main, (*BAG, "--golden", ""), "--golden"),
        (replay.main, (*BAG, "--out", ""), "--out"),
        (play.main, ("",), "BAG"),
        (record.main, ("--robot", "nope", "--out", ""), "--out"),
        (roofline.main, ("--report", ""), "--report"),
        (security.main, ("--out", ""), "--out"),
        (soak.main, ("--robot", "nope", "--out", ""), "--out"),
        (handoff.main, ("hold", "--node", ""), "--node"),
    ],
)
def test_an_empty_word_is_no_default_and_no_current_directory(
    main, words, option, tmp_path, monkeypatch, capsys
):
    """``--robot "$ROBOT"`` of a variable that is not set left the check of the robot out. What
    would run for long names a robot that is not there: whatever fails here starts nothing."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {option}: expected a value, found an empty word" in said
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_is_not_there_is_said_without_an_error_number(tmp_path, capsys):
    assert roofline.main(["--report", str(tmp_path / "nope.json")]) == 2
    assert f"{tmp_path}/nope.json: cannot be read: No such file" in capsys.readouterr().err
