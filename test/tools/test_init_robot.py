# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A skeleton fits its checkpoint: refused while it has gaps, bound once they are filled."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from phyai_ros import robots
from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.nodes import model_file
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.config_files import GAP
from phyai_ros.tools.cli import main
from phyai_ros.tools.describe import describe
from phyai_ros.tools.robot_skeleton import camera_roles, joint_names, skeleton

GOLDEN = Path(
    os.environ.get("PHYAI_GOLDEN", Path(__file__).resolve().parents[3] / "shared" / "golden")
)
CASES = [("gr00t_ur10e_small", None)] + [
    (str(GOLDEN / name), tag)
    for name, tag in (
        ("act", None),
        ("diffusion", None),
        ("smolvla", None),
        ("pi0", None),
        ("pi05_openpi", None),
        ("groot_n17", "libero_sim"),
    )
    if GOLDEN.is_dir()
]


def fill(file: Path) -> None:
    """What a user does: numbers for limits, a rate, a constant for a column without a joint."""
    text = re.sub(rf"control_rate: {GAP}", "control_rate: 20.0", file.read_text())
    text = re.sub(rf"step: {GAP}", "step: 0.05", text)
    text = text.replace(f"[{GAP}, {GAP}]", "[-3.0, 3.0]")
    text = re.sub(rf"(velocity|acceleration): {GAP}", r"\1: 2.0", text)
    file.write_text(text.replace(f"- {GAP}", "- 0.0"))


@pytest.mark.parametrize(("checkpoint", "tag"), CASES)
def test_the_files_fit_the_checkpoint_once_filled_in(tmp_path, capsys, checkpoint, tag):
    words = ["init-robot", "--checkpoint", checkpoint, "--out", str(tmp_path / "arm.yaml")]
    assert main([*words, "--json", *(["--embodiment", tag] if tag else [])]) == 0
    written = json.loads(capsys.readouterr().out)
    robot_file, model = (Path(f) for f in written["files"])
    text = re.sub("#.*", "", robot_file.read_text() + model.read_text())
    assert written["gaps"] == text.count(GAP) > 0
    with pytest.raises(robots.RobotError, match=GAP):
        robots.load(robot_file)
    fill(robot_file)
    fill(model)
    assert GAP not in re.sub("#.*", "", robot_file.read_text() + model.read_text())
    robot = robots.load(robot_file)
    loaded, source = model_file.load(str(model))
    name = model_file.checkpoint_path(loaded.checkpoint, source)
    spec = describe(name, family=loaded.family, embodiment=tag, revision=None).specs[0]
    binding = Binding(robot, spec, model_file.robot_part(loaded, robot.name, source), source=source)
    assert binding.step == 0.05
    positions = np.linspace(-1, 1, len(robot.joints))[None]
    joints = dict(zip(robot.joint_names, positions[0], strict=True))
    there = binding.actions(positions, joints)
    np.testing.assert_allclose(binding.positions(there, joints), positions)


def test_existing_files_are_kept_unless_forced(tmp_path):
    file = tmp_path / "my_robot.yaml"
    words = ["init-robot", "--checkpoint", "gr00t_ur10e_small", "--out", str(file)]
    assert main(words) == 0
    file.write_text("mine")
    assert main(words) == 1
    assert file.read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert file.read_text() != "mine"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden fixtures at {GOLDEN}")
def test_several_embodiments_must_be_named(tmp_path, capsys):
    words = [
        "init-robot",
        "--checkpoint",
        str(GOLDEN / "groot_n17"),
        "--out",
        str(tmp_path / "a.yaml"),
    ]
    assert main(words) == 1
    assert "libero_sim, oxe_droid" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["my robot.yaml", "my_robot", "7.yaml", "."])
def test_a_file_that_cannot_name_a_robot_is_wrong_usage(out):
    with pytest.raises(SystemExit) as end:
        main(["init-robot", "--checkpoint", "gr00t_ur10e_small", "--out", out])
    assert end.value.code == 2


def test_it_prints_the_next_commands_and_they_work(tmp_path, monkeypatch, capsys):
    """Into the current directory, as in the README; both files filled in, the printed check run and
    the printed launch line's files read by their launch arguments."""
    monkeypatch.chdir(tmp_path)
    assert main(["init-robot", "--checkpoint", "gr00t_ur10e_small", "--out", "my_arm.yaml"]) == 0
    told, *following = capsys.readouterr().out.splitlines()
    assert told.startswith("wrote my_arm.yaml and my_arm_gr00t_n17.yaml: fill in the ")
    check, up = (shlex.split(line) for line in following)
    fill(Path("my_arm.yaml"))
    fill(Path("my_arm_gr00t_n17.yaml"))
    assert check[:2] == ["phyai-ros", "check"]
    assert main([*check[1:], "--batch", "1"]) == 0
    (row,) = [
        r for r in json.loads(Path("check.json").read_text())["rows"] if r["check"] == "robot"
    ]
    assert (row["detail"], row["passed"]) == ("my_arm", True)
    assert up == ["phyai-ros", "up", "robot:=my_arm.yaml", "model:=my_arm_gr00t_n17.yaml"]
    named = dict(word.split(":=") for word in up[2:])
    model, source = model_file.load(named["model"])
    assert model_file.robot_part(model, robots.load(named["robot"]).name, source).action


def spec(**features) -> PolicySpec:
    state = features.pop("state", ())
    return PolicySpec(
        family="f", checkpoint="c", cameras=("observation.images.a", "b/a"), optional_cameras=(),
        state=state, horizon=4, denoising_steps=1, model_action_dim=9, **features,
    )  # fmt: skip


def test_names_of_the_checkpoint_are_kept():
    named = tuple(FeatureSpec(n, 1, "MEAN_STD") for n in ("elbow.pos", "Gripper.pos"))
    assert joint_names(spec(action=named)) == ["elbow", "Gripper"]
    whole = (FeatureSpec("action", 3, "MEAN_STD"),)
    assert joint_names(spec(action=whole)) == ["joint_0", "joint_1", "joint_2"]
    groups = (FeatureSpec("left.arm", 2, "x"), FeatureSpec("right.arm", 2, "x"))
    assert len(set(joint_names(spec(action=groups)))) == 4


def test_two_cameras_never_share_a_role():
    roles = camera_roles(spec(action=(FeatureSpec("action", 1, "x"),)))
    assert len(set(roles.values())) == 2


def test_the_rate_of_a_checkpoint_that_says_it_is_no_gap():
    action = (FeatureSpec("gripper", 1, "MIN_MAX", statistics={"min": [0.0], "max": [0.04]}),)
    given = spec(action=action, state=action, step=0.02)
    text = skeleton(given, "arm", "f", "c")
    assert "control_rate: 50 " in text.robot
    assert "step: 0.02" in text.model
    assert "gripper: {}" in text.robot
    assert "values in the training data: 0 to 0.04" in text.robot


def test_values_that_no_joint_has_in_radians_are_said_to_be_degrees():
    wide, narrow = ({"min": [low], "max": [high]} for low, high in ((-90.0, 90.0), (-1.5, 1.5)))
    joints = (
        FeatureSpec("elbow", 1, "MIN_MAX", statistics=wide),
        FeatureSpec("wrist", 1, "MIN_MAX", statistics=narrow),
    )
    lines = skeleton(spec(action=joints, state=joints), "arm", "f", "c").robot.splitlines()
    (elbow,) = [line for line in lines if line.startswith("  elbow:")]
    assert "-90 to 90; of a joint that turns: if the checkpoint speaks degrees, scale: " in elbow
    assert "LeRobot's -100 to 100" in elbow
    (wrist,) = [line for line in lines if line.startswith("  wrist:")]
    assert wrist.endswith("-1.5 to 1.5")


def test_names_that_yaml_would_read_otherwise_are_read_as_they_are(tmp_path):
    """Switches, structures and lines of their own: all are names that a checkpoint may have."""
    names = ("on", "no", "12", "a: b", "x # y", "z\nname: mine", "joint [rad]", "关节")
    action = tuple(FeatureSpec(n, 1, "MEAN_STD") for n in names)
    given = PolicySpec(
        family="act", checkpoint="c", cameras=("null", "摄像头", "top: 1"), optional_cameras=(),
        state=action, action=action, horizon=4, denoising_steps=1, model_action_dim=8,
        embodiment="off",
    )  # fmt: skip
    text = skeleton(given, "arm", "act", "/data/run: 3 # last\nname: theirs")
    robot, model = yaml.safe_load(text.robot), yaml.safe_load(text.model)
    assert (robot["name"], list(robot["joints"])) == ("arm", joint_names(given))
    assert all(isinstance(name, str) for name in (*robot["joints"], *robot["cameras"]))
    assert model["checkpoint"] == "/data/run: 3 # last\nname: theirs"
    (part,) = model["robots"].values()
    assert part["cameras"] == camera_roles(given)
    assert part["embodiment"] == "off"
    assert part["action"] == part["state"] == joint_names(given)
    topics = [camera["topic"] for camera in robot["cameras"].values()]
    assert all(re.fullmatch(r"[A-Za-z0-9_/]+", topic) for topic in topics)
