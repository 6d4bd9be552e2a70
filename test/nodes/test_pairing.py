# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A model and a robot that do not go together are refused before any process starts."""

import re

import pytest

from phyai_ros import robots
from phyai_ros.engine import embedded
from phyai_ros.nodes import graph, model_file, pairing
from phyai_ros.nodes.arguments import ArgumentError
from phyai_ros.robots import config_files


def refusal(**given):
    with pytest.raises(ArgumentError) as caught:
        pairing.check(graph.parse(given))
    return str(caught.value)


def test_the_packaged_pairs_fit_and_are_all_there():
    """The check leaves them out: it is made here."""
    pairs = pairing.packaged()
    assert {("gr00t", "ur10e"), ("pi05", "ur10e"), ("act", "aloha")} <= set(pairs)
    for model, name in pairs:
        robot = robots.load(name)
        assert pairing.misfit(robot, model_file.choose(model, robot.name)) == ""
        pairing.check(graph.parse({"model": model, "robot": name}))


@pytest.mark.parametrize(
    ("model", "robot", "wants", "gives"),
    [
        ("act", "ur10e", ["cam_high", "14 of action", "left_waist"], ["scene, wrist", "7 joints"]),
        ("gr00t", "aloha", ["scene, wrist", "7 of action"], ["cam_high", "14 joints: left_waist"]),
        ("pi05", "aloha_driver", ["scene", "7 of action"], ["cam_high", "14 joints: left_waist"]),
    ],
)
def test_a_wrong_pair_is_told_with_both_files_and_the_right_pairs(model, robot, wants, gives):
    text = refusal(model=model, robot=robot)
    said, wanted, given, *rest = text.splitlines()
    assert said == f"model:={model} and robot:={robot} do not go together"
    assert str(config_files.find("models", model)) in wanted
    assert str(config_files.find("robots", robot)) in given
    for part in wants:
        assert part in wanted
    for part in gives:
        assert part in given
    for pair in pairing.packaged():
        assert "model:={} robot:={}".format(*pair) in rest[0]
    assert len(rest) == 2


def own(tmp_path, change=lambda text: text):
    """A user's model file beside a checkpoint of theirs."""
    (tmp_path / "mine").symlink_to(embedded.find("gr00t_ur10e_small"))
    text = config_files.find("models", "gr00t").read_text().replace("gr00t_ur10e_small", "mine")
    path = tmp_path / "my_gr00t.yaml"
    path.write_text(change(text))
    return str(path)


@pytest.mark.parametrize("word", ["groot17", ""])
def test_a_family_that_is_none_is_refused_by_file_and_key(tmp_path, word):
    model = own(tmp_path, lambda text: text.replace("family: gr00t_n17", f"family: '{word}'"))
    text = refusal(model=model)
    assert text.startswith(f"{model}: family: unknown model family '{word}'; known: act, ")


def test_a_robot_of_another_name_than_the_model_file_has_is_told_so(tmp_path):
    """A robot that was renamed was told to list what the model file lists."""
    robot = tmp_path / "arm.yaml"
    robot.write_text("extends: ur10e\nname: my_arm\n")
    text = refusal(model=own(tmp_path), robot=str(robot))
    assert (
        f"my_gr00t.yaml: robots: expected 'my_arm', the name of {robot}, found ['ur10e']: is the "
        "name in one of the files another than meant?"
    ) in text
    assert "robots: expected" not in refusal(model="gr00t", robot="aloha")


def test_a_checkpoint_of_the_users_is_checked_alike(tmp_path):
    model = own(tmp_path)
    pairing.check(graph.parse({"model": model}))
    assert "14 joints" in refusal(model=model, robot="aloha")
    text = refusal(model="act", checkpoint=str(tmp_path / "mine"))
    assert "act.yaml: family: act" in text
    assert "it is gr00t_n17; the models of that family: gr00t" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("actions: relative", "actions: expected no joint whose column the checkpoint makes absol"),
        ("joints: {elbow_joint: {position: [-1, 1]}}", "joints.elbow_joint.position: expected lim"),
    ],
)
def test_what_would_drive_the_arm_to_its_limits_starts_nothing(tmp_path, change, said):
    robot = tmp_path / "arm.yaml"
    robot.write_text(f"extends: ur10e\n{change}\n")
    assert f"{robot}: {said}" in refusal(model="gr00t", robot=str(robot))


def test_a_model_file_that_means_to_fit_is_told_where_it_does_not(tmp_path):
    text = refusal(model=own(tmp_path, lambda text: re.sub("elbow_joint", "elbow", text, count=1)))
    assert "do not go together" in text
    assert "my_gr00t.yaml: robots.ur10e: state" in text
    assert "'elbow' (do you mean 'elbow_joint'?)" in text


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"checkpoint": "/no/such/folder"}, ["/no/such/folder", "gr00t_ur10e_small"]),
        ({"embodiment": "toaster"}, ["toaster", "ur10e_sim"]),
        ({"checkpoint": "act_aloha_small"}, ["gr00t.yaml: family: gr00t_n17", "that it is act;"]),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_refused_with_what_there_is(given, parts):
    text = refusal(**given)
    for part in parts:
        assert part in text


def test_a_checkpoint_that_only_a_hub_has_is_left_to_the_node(monkeypatch):
    from phyai_ros.engine import hub

    monkeypatch.setattr(hub, "snapshot_download", lambda *a, **k: pytest.fail("downloaded"))
    for name in ("lab/arm-policy", "lab/arm-policy@v1"):
        pairing.check(graph.parse({"checkpoint": name}))
