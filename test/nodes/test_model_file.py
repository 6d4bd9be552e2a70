# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A model's YAML and where its checkpoint lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from phyai_ros.engine import registry
from phyai_ros.nodes import model_file
from phyai_ros.robots import RobotError, config_files


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


@pytest.mark.parametrize("family", registry.families())
def test_every_family_has_a_model_under_all_its_names(family):
    files = {
        Path(model_file.load(name)[1]).name for name in (family, *registry.family(family).aliases)
    }
    assert len(files) == 1, files
    (model,) = (model_file.load(n)[0] for n in config_files.names("models") if f"{n}.yaml" in files)
    assert registry.resolve(str(model.family)) == family


def test_a_name_of_no_model_is_answered_with_those_there_are():
    with pytest.raises(RobotError, match=r"model 'pi9' is unknown: expected one of .*'gr00t'"):
        model_file.load("pi9")
