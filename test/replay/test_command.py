# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros replay`` as a user and as a CI job sees it."""

import json
from pathlib import Path

import pytest

from phyai_ros.replay.result import ResultFile, load, save
from phyai_ros.tools import replay as command

CHECKPOINT = "gr00t_ur10e_small"
RECORDED = Path(__file__).parents[1] / "data" / "bags" / "gr00t"


def words(bag, *more):
    return [str(bag), "--checkpoint", CHECKPOINT, "--robot", "ur10e", *map(str, more)]


@pytest.fixture(scope="module")
def golden(bags, tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.npz"
    assert command.main(words(bags / "adversarial", "--out", path)) == 0
    return path


def test_against_its_own_golden_all_is_well(bags, golden, tmp_path, capsys):
    out = tmp_path / "out.npz"
    more = ("--golden", golden, "--out", out, "--json", "-")
    assert command.main(words(bags / "adversarial", *more)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["golden"]["passed"] is True
    assert {c["name"] for c in told["golden"]["checks"]} >= {"observations", "ticks", "actions"}
    assert out.read_bytes() == golden.read_bytes()
    assert out.with_suffix(".png").stat().st_size > 10_000


def test_a_difference_is_said_and_fails(bags, golden, tmp_path, capsys):
    right = load(golden)
    wrong = ResultFile(right.about, {**right.arrays, "chunk": right["chunk"] + 0.0})
    wrong["chunk"][3, 5, 1] += 0.3
    path = tmp_path / "wrong.npz"
    save(wrong, path)
    more = ("--golden", path, "--out", tmp_path / "out.npz")
    assert command.main(words(bags / "adversarial", *more)) == 1
    said = capsys.readouterr()
    request = right["request_id"][3]
    assert f"request {request}, joint shoulder_lift_joint, step 5" in said.err.replace("\n", " ")
    assert "differs" in said.out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bag": "none"}, "there is no such bag"),
        ({"--checkpoint": "none"}, "none"),
        ({"--robot": "nobody"}, "nobody"),
        ({"--golden": "none.npz"}, "there is no such file"),
        ({"--requests": "recorded"}, "holds no live run"),
        ({"--model": "pi05"}, "that it is gr00t_n17; the models of that family: gr00t"),
        ({"--family": "pi05"}, "family 'pi05' asked for, but this is 'gr00t_n17': name that or"),
        ({"--device": "cuda:77"}, "cuda:77"),
        ({"--out": "/dev/full"}, "/dev/full not written: No space left on device"),
    ],
)
def test_what_cannot_be_used_is_named_and_is_status_2(bags, tmp_path, capsys, change, says):
    given = {"--out": tmp_path / "o.npz", "--checkpoint": CHECKPOINT, "--robot": "ur10e", **change}
    bag = given.pop("bag", bags / "adversarial")
    assert command.main([str(bag), *(str(w) for pair in given.items() for w in pair)]) == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("option", "file"), [(None, "runs/replay/adversarial.npz"), ("--out", "o.npz"), ("--json", "j")]
)
def test_what_cannot_be_written_costs_no_verdict(
    bags, golden, monkeypatch, tmp_path, capsys, option, file
):
    given = {"--golden": golden, "--out": tmp_path / "o.npz"}
    if option is None:
        del given["--out"]
    else:
        given[option] = file
    monkeypatch.chdir("/proc")
    status = command.main(words(bags / "adversarial", *(w for pair in given.items() for w in pair)))
    said = capsys.readouterr()
    assert "golden" in said.out
    assert f"/proc/{file} not written: No such file" in said.err.replace("\n", " ")
    assert status == (0 if option is None else 2)


def test_live_asks_for_a_live_run(bags, tmp_path):
    assert command.main(words(bags / "plain", "--out", tmp_path / "o.npz", "--live")) == 1


@pytest.mark.parametrize("requests", ["recorded", "own"])
def test_a_bag_of_which_nothing_can_be_used_is_said_to_be_one(tmp_path, capsys, requests):
    """No answer at all: the comparison with the live run ended in numpy's words."""
    robot = tmp_path / "mine.yaml"
    robot.write_text("extends: ur10e\ncameras: {wrist: {size: [480, 640]}}\n")
    more = ("--robot", robot, "--requests", requests, "--out", tmp_path / "o.npz")
    assert command.main(words(RECORDED, *more)) == 1
    said = capsys.readouterr().err
    assert "no request could be answered: " in said
    assert "of /camera/wrist/image_raw/compressed 7" in said
    assert "says camera 'wrist' is 640x480" in said
    again = ("--golden", tmp_path / "o.npz", "--out", tmp_path / "p.npz")
    assert command.main(words(RECORDED, *more, *again)) == 1
    assert "no request could be answered: " in capsys.readouterr().err
