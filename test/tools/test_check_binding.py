# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""``phyai-ros check --robot`` without --model finds the model that puts one on the other."""

import json
import shutil

import pytest

from phyai_ros.engine import embedded
from phyai_ros.robots import config_files
from phyai_ros.tools.cli import main


def robot_row(tmp_path, *words):
    file = tmp_path / "result.json"
    words = ["--batch", "1", "--json", str(file), "--robot", "ur10e", *words]
    status = main(["check", *words])
    (row,) = [r for r in json.loads(file.read_text())["rows"] if r["check"] == "robot"]
    assert row["passed"] is (status == 0)
    return row


@pytest.mark.parametrize(
    ("checkpoint", "model"),
    [
        ("gr00t_ur10e_small", "gr00t"),
        ("pi05_ur10e_small", "pi05"),
        ("pi05_ur10e_rtc_small", "pi05"),
    ],
)
def test_the_model_is_found(tmp_path, checkpoint, model):
    row = robot_row(tmp_path, "--checkpoint", checkpoint)
    assert (row["passed"], row["note"].endswith(f"; model {model}")) == (True, True)
    named = robot_row(tmp_path, "--checkpoint", checkpoint, "--model", model)
    assert row["note"] == f"{named['note']}; model {model}"


def test_where_none_is_it_says_to_pass_one_and_which_there_are(tmp_path):
    shutil.copytree(embedded.find("pi05_ur10e_small"), tmp_path / "other")
    row = robot_row(tmp_path, "--checkpoint", str(tmp_path / "other"))
    assert not row["passed"]
    assert "pass --model, one of " + ", ".join(config_files.names("models")) in row["note"]
    assert "(pi05 for its family, pi05)" in row["note"]
    assert "\n" not in row["note"]


def test_where_several_are_it_says_which(tmp_path, monkeypatch):
    """A second configuration folder, of a sourced workspace."""
    folder = tmp_path / "prefix" / "share" / "phyai_ros" / "config"
    shutil.copytree(config_files.config_dirs()[0], folder)
    shutil.copy(folder / "models" / "gr00t.yaml", folder / "models" / "mine.yaml")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    row = robot_row(tmp_path, "--checkpoint", "gr00t_ur10e_small")
    assert not row["passed"]
    assert row["note"].endswith("pass one with --model: gr00t, mine")


def test_numbers_that_are_not_the_robots_are_said_and_where_a_model_was_named_or_not(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: ur10e\njoints: {elbow_joint: {offset: 25}}\n")
    row = robot_row(tmp_path, "--checkpoint", "gr00t_ur10e_small", "--robot", str(mine))
    assert not row["passed"]
    assert "training saw 'elbow_joint' at 26.598" in row["note"]
    assert "correct its offset" in row["note"]
    mine.write_text("extends: ur10e\njoints: {elbow_joint: {position: [2.6, 2.7]}}\n")
    row = robot_row(tmp_path, "--checkpoint", "gr00t_ur10e_small", "--robot", str(mine))
    assert row["passed"]
    assert "; to be looked at: state: elbow_joint: its limits" in row["note"]


def test_what_would_drive_the_arm_to_its_limits_is_refused(tmp_path):
    """Both were ok: limits in which the policy never was, and a position that is added twice."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: ur10e\njoints: {elbow_joint: {position: [-1, 1]}}\n")
    row = robot_row(tmp_path, "--checkpoint", "gr00t_ur10e_small", "--robot", str(mine))
    assert not row["passed"]
    assert "mine.yaml: joints.elbow_joint.position: expected limits that reach" in row["note"]
    mine.write_text("extends: ur10e\nactions: relative\n")
    row = robot_row(tmp_path, "--checkpoint", "gr00t_ur10e_small", "--robot", str(mine))
    assert not row["passed"]
    assert "mine.yaml: actions: expected no joint whose column" in row["note"]
