# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the engine asks for by its argument's name, the commands ask for by their option's."""

import json
import shutil
from pathlib import Path

import pytest

from phyai_ros.engine import embedded
from phyai_ros.engine.policy import load_policy
from phyai_ros.engine.types import PolicyError
from phyai_ros.tools.cli import main

BAG = Path(__file__).parents[1] / "data" / "bags" / "gr00t"


@pytest.fixture
def nameless(tmp_path):
    """A checkpoint that does not tell its family."""
    root = tmp_path / "nameless"
    shutil.copytree(embedded.find("gr00t_ur10e_small"), root)
    config = json.loads((root / "config.json").read_text())
    for key in ("type", "model_type", "architectures"):
        config.pop(key, None)
    (root / "config.json").write_text(json.dumps(config))
    return root


@pytest.mark.parametrize("command", ["info", "init-robot", "check"])
def test_the_option_is_named_and_helps(command, nameless, tmp_path, capsys):
    words = [command, "--checkpoint", str(nameless)]
    words += {
        "check": ["--json", str(tmp_path / "check.json"), "--batch", "1"],
        "init-robot": ["--out", str(tmp_path / "arm.yaml")],
    }.get(command, [])
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "(name one with --family)" in said
    assert "family=" not in said
    assert main([*words, "--family", "gr00t"]) == 0


def test_python_is_told_its_argument(nameless):
    with pytest.raises(PolicyError, match=r"\(name one with family=\)"):
        load_policy(Path(nameless))


@pytest.mark.parametrize("command", ["info", "init-robot", "check", "replay"])
def test_an_empty_checkpoint_is_not_the_current_directory(command, tmp_path, monkeypatch, capsys):
    """As of a shell's variable that is not set; here even in a directory that is a checkpoint."""
    checkpoint = shutil.copytree(embedded.find("gr00t_ur10e_small"), tmp_path / "here")
    monkeypatch.chdir(checkpoint)
    words = {"replay": [str(BAG), "--robot", "ur10e"], "check": ["--json", "-"]}.get(command, [])
    assert main([command, *words, "--checkpoint", ""]) in (1, 2)
    said = " ".join(capsys.readouterr().err.split())
    assert "checkpoint: expected a directory, an embedded checkpoint (" in said
    assert "found an empty name" in said


def test_python_is_told_that_a_checkpoint_is_empty(monkeypatch):
    monkeypatch.chdir(embedded.find("gr00t_ur10e_small"))
    with pytest.raises(PolicyError, match="found an empty name"):
        load_policy("")
