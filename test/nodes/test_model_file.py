# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A model's YAML and where its checkpoint lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from phyai_ros.nodes import model_file
from phyai_ros.robots import RobotError


def test_the_embedded_model_names_an_embedded_checkpoint():
    model, source = model_file.load("gr00t")
    path = Path(model_file.checkpoint_path(model.checkpoint, source))
    assert (path / "config.json").is_file()
    part = model_file.robot_part(model, "ur10e", source)
    assert part.step == 0.05
    assert model_file.robot_part(model, "another_robot", source).state is None


def test_a_checkpoint_beside_the_yaml_comes_first(tmp_path):
    (tmp_path / "gr00t_ur10e_small").mkdir()
    found = model_file.checkpoint_path("gr00t_ur10e_small", str(tmp_path / "mine.yaml"))
    assert found == str(tmp_path / "gr00t_ur10e_small")


@pytest.mark.parametrize("name", ["owner/name", "/somewhere/else"])
def test_any_other_name_is_left_for_the_engine(tmp_path, name):
    assert model_file.checkpoint_path(name, str(tmp_path / "mine.yaml")) == name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("family: pi0\n", "checkpoint: missing"),
        ("checkpoint: a\nexecution_horizon: 0\n", "execution_horizon"),
        ("checkpoint: a\nchekpoint: b\n", "chekpoint: unknown key; known here:"),
    ],
)
def test_what_is_wrong_in_the_yaml_is_named(tmp_path, text, says):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RobotError, match=says):
        model_file.load(str(path))
