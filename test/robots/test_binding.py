# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Binding: a checkpoint checked against a robot, frames in, chunks out."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.nodes import model_file, pairing
from phyai_ros.robots import RobotError
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.errors import NumbersError
from phyai_ros.robots.model_config import for_robot
from phyai_ros.tools.describe import describe

JOINTS = robots.load("ur10e").joint_names


def spec(**changes):
    features = (FeatureSpec("single_arm", 6, "min_max"), FeatureSpec("gripper", 1, "min_max"))
    values = {
        "family": "gr00t",
        "checkpoint": "checkpoints/small",
        "cameras": ("video.scene", "video.wrist"),
        "optional_cameras": (),
        "state": features,
        "action": features,
        "horizon": 16,
        "denoising_steps": 4,
        "model_action_dim": 32,
        "step": 0.05,
        "embodiment": "ur10e",
        "embodiments": ("ur10e", "droid"),
    }
    return PolicySpec(**{**values, **changes})


CONFIG = {"state": list(JOINTS), "action": list(JOINTS)}


def bind(robot=None, config=CONFIG, **changes):
    return Binding(robot or robots.load("ur10e"), spec(**changes), config, source="gr00t.yaml")


def frame(**joints):
    position = {name: 0.1 * i for i, name in enumerate(reversed(JOINTS))}
    position.update(joints)
    images = {r: np.full((4, 4, 3), i, np.uint8) for i, r in enumerate(("scene", "wrist"))}
    return SimpleNamespace(stamp=12.0, images=images, joints=position)


def test_frame_to_observation_by_name():
    observation = bind().observation(frame(), "reach the red block")
    assert list(observation.images) == ["video.scene", "video.wrist"]
    assert observation.images["video.wrist"][0, 0, 0] == 1
    np.testing.assert_allclose(observation.state, [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    assert observation.stamp == 12.0
    assert observation.instruction == "reach the red block"


def test_columns_in_another_order_reach_their_own_joints():
    """Isaac-GR00T#406: joint order. The checkpoint has its order, the robot its own."""
    order = list(reversed(JOINTS))
    binding = bind(config={"state": order, "action": order})
    rows = np.arange(14.0).reshape(2, 7)
    np.testing.assert_array_equal(binding.positions(rows, {}), rows[:, ::-1])
    np.testing.assert_array_equal(binding.actions(binding.positions(rows, {}), {}), rows)


def test_names_in_the_checkpoint_need_no_config():
    names = [FeatureSpec(f"{j}.pos", 1, "mean_std") for j in reversed(JOINTS)]
    binding = bind(
        config=None,
        cameras=("observation.images.wrist", "observation.images.scene"),
        state=tuple(names),
        action=tuple(names),
    )
    assert binding.roles == {
        "observation.images.wrist": "wrist",
        "observation.images.scene": "scene",
    }
    rows = np.arange(7.0)[None]
    np.testing.assert_array_equal(binding.positions(rows, {})[0], rows[0, ::-1])


def custom(tmp_path, edit):
    text = Path(robots.load("ur10e").source).read_text()
    file = tmp_path / "custom.yaml"
    file.write_text(edit(text))
    return robots.load(file)


def test_units_signs_and_grippers_there_and_back(tmp_path):
    def edit(text):
        return text.replace(
            "elbow_joint:         {unit: rad,",
            "elbow_joint:         {unit: rad, sign: -1, offset: 0.5, scale: 57.29577951308232,",
        ).replace(
            "gripper: {}",
            "gripper: {state: {kind: opening, zero: 0.04, one: 0.0}, "
            "command: {kind: opening, zero: 0.0, one: 0.04}}",
        )

    binding = bind(custom(tmp_path, edit))
    joints = frame(finger_joint=0.01, elbow_joint=1.0).joints
    state = binding.state(joints)
    assert state[2] == pytest.approx(np.degrees(-(1.0 - 0.5)))
    assert state[6] == pytest.approx(0.75)
    assert binding.joints(state) == pytest.approx(joints, abs=1e-12)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (16, 7))
    positions = binding.positions(rows, joints)
    np.testing.assert_allclose(positions[:, 2], 0.5 - np.radians(rows[:, 2]), atol=1e-12)
    np.testing.assert_allclose(positions[:, 6], 0.04 * rows[:, 6], atol=1e-12)
    np.testing.assert_allclose(binding.actions(positions, joints), rows, atol=1e-9)


def test_relative_actions_are_anchored_at_the_observation_not_the_gripper():
    robot = robots.load("ur10e").model_copy(update={"actions": "relative"})
    binding = bind(robot)
    joints = frame().joints
    rows = np.full((3, 7), 0.01)
    positions = binding.positions(rows, joints)
    expected = [joints[j] + 0.01 for j in JOINTS[:6]]
    np.testing.assert_allclose(positions[0, :6], expected)
    assert positions[0, 6] == 0.01
    np.testing.assert_allclose(binding.actions(positions, joints), rows, atol=1e-12)


def test_a_model_may_have_its_own_gripper_mapping():
    mapping = {"finger_joint": {"command": {"kind": "opening", "zero": 0.0, "one": 0.04}}}
    binding = bind(config={**CONFIG, "mappings": mapping})
    assert binding.positions(np.ones((1, 7)), {})[0, 6] == 0.04
    assert binding.state(frame(finger_joint=0.03).joints)[6] == 0.03


def test_constant_state_columns_and_ignored_action_columns():
    more = (FeatureSpec("all", 8, "min_max"),)
    binding = bind(
        config={"state": [*JOINTS, 0.5], "action": [None, *JOINTS]}, state=more, action=more
    )
    assert binding.state(frame().joints)[7] == 0.5
    rows = np.arange(8.0)[None]
    np.testing.assert_array_equal(binding.positions(rows, {})[0], rows[0, 1:])
    np.testing.assert_array_equal(
        binding.actions(binding.positions(rows, {}), {})[0, 1:], rows[0, 1:]
    )


def test_non_finite_actions_stay_so_for_the_handoff_to_refuse():
    rows = np.zeros((2, 7))
    rows[1, 3] = np.nan
    assert np.isnan(bind().positions(rows, {})[1, 3])


@pytest.mark.parametrize(
    ("config", "changes", "texts"),
    [
        (
            CONFIG,
            {"cameras": ("rs_view", "video.wrist")},
            [
                "gr00t.yaml: robots.ur10e: cameras.rs_view: missing",
                "['scene', 'wrist']",
                "ur10e.yaml",
            ],
        ),
        (
            {**CONFIG, "cameras": {"video.scene": "sceen"}},
            {},
            ["cameras.video.scene", "found 'sceen'", "do you mean 'scene'"],
        ),
        (
            {**CONFIG, "cameras": {"video.wrst": "wrist"}},
            {},
            ["cameras.video.wrst", "no such camera", "do you mean 'video.wrist'"],
        ),
        (
            None,
            {"state": (FeatureSpec("arm", 6, "min_max"),)},
            ["state: the checkpoint", "has 6 columns", "a column, and have no other joints"],
        ),
        (None, {}, ["state: missing", "'single_arm.0'", "list one joint a column"]),
        ({**CONFIG, "state": list(JOINTS[:6])}, {}, ["state: expected 7 entries", "found 6"]),
        (
            {**CONFIG, "action": [*JOINTS[:6], "fingr_joint"]},
            {},
            ["action: expected joints", "found 'fingr_joint'", "do you mean 'finger_joint'"],
        ),
        (
            {**CONFIG, "action": [*JOINTS[:6], None]},
            {},
            [
                "action: no column moves ['finger_joint']",
                "say which column does, or take them out of its joints",
            ],
        ),
        (
            {**CONFIG, "action": [*JOINTS[:6], JOINTS[0]]},
            {},
            ["'shoulder_pan_joint' is given 2 times"],
        ),
        ({**CONFIG, "horizon": 8}, {}, ["horizon: expected 16", "found 8"]),
        ({**CONFIG, "embodiment": "driod"}, {}, ["embodiment", "do you mean 'droid'"]),
        (CONFIG, {"step": None}, ["step: missing", "rate of its training data"]),
        ({**CONFIG, "step": 0.1}, {}, ["step: expected 0.05", "found 0.1"]),
        (CONFIG, {"step": 1 / 30}, ["ur10e.yaml: control_rate", "multiple of 30 Hz", "found 20"]),
        ({**CONFIG, "camera": {}}, {}, ["camera: unknown key", "'cameras'"]),
        ({**CONFIG, "relative": ["knee"]}, {}, ["relative: expected joints", "found 'knee'"]),
    ],
)
def test_what_does_not_fit_is_told_with_key_expected_found_and_candidates(config, changes, texts):
    with pytest.raises(RobotError) as caught:
        bind(config=config, **changes)
    for text in texts:
        assert text in str(caught.value), str(caught.value)


def test_a_model_file_about_other_robots_is_said_to_be_one():
    config = for_robot({"robots": {"my_arm": {"step": 0.05}}}, "ur10e", "m.yaml")
    with pytest.raises(RobotError, match=r"gr00t.yaml: robots: expected 'ur10e'.*\['my_arm'\]"):
        bind(config=config)
    same = for_robot({"robots": {"ur10e": {"step": 0.05}}}, "ur10e", "m.yaml")
    with pytest.raises(RobotError) as caught:
        bind(config=same)
    assert "robots: expected" not in str(caught.value)


RANGES = {
    "min_max": {"min": np.full(6, -1.5), "max": np.full(6, 1.5)},
    "quantiles": {"q01": np.full(6, -1.5), "q99": np.full(6, 1.5)},
    "mean_std": {"mean": np.zeros(6), "std": np.full(6, 0.5)},
}


@pytest.mark.parametrize("kind", RANGES)
def test_a_state_in_another_unit_than_trained_is_refused_by_name(kind):
    """strands robots#985 the other way round: degrees go in. The network would make a confident
    chunk of nonsense, and the handoff could not tell."""
    arm = FeatureSpec("single_arm", 6, kind, statistics=RANGES[kind])
    binding = bind(state=(arm, FeatureSpec("gripper", 1, "min_max")))
    degrees = {name: np.degrees(value) for name, value in frame(elbow_joint=1.2).joints.items()}
    with pytest.raises(RobotError, match=r"'elbow_joint' is 68.7549, where .*: unit, sign or col"):
        binding.state({**frame().joints, "elbow_joint": degrees["elbow_joint"]})
    # A posture that training never saw is the policy's to cope with.
    assert binding.state(frame(elbow_joint=-6.2).joints)[2] == -6.2


def test_a_joint_that_hardly_moved_in_training_may_move():
    still = {"min": np.full(6, 0.3), "max": np.full(6, 0.3001)}
    arm = FeatureSpec("single_arm", 6, "min_max", statistics=still)
    binding = bind(state=(arm, FeatureSpec("gripper", 1, "min_max")))
    binding.state(frame(shoulder_pan_joint=-0.6).joints)
    with pytest.raises(RobotError) as caught:
        binding.state(frame(shoulder_pan_joint=2.0).joints)
    said = str(caught.value)
    assert "'shoulder_pan_joint' is 2, where training saw 0.3 to 0.3001" in said
    for reason in ("stands where it never was in training: move it there", "unit, sign or column"):
        assert reason in said
    assert "would explain it" not in said, "neither unit nor sign would"


@pytest.mark.parametrize(
    ("value", "explained"),
    [(17.19, "degrees taken for radians"), (-0.3, ""), (-2.0, "")],
)
def test_what_would_explain_a_wild_value_is_named(value, explained):
    still = {"min": np.full(6, 0.299), "max": np.full(6, 0.301)}
    arm = FeatureSpec("single_arm", 6, "min_max", statistics=still)
    binding = bind(state=(arm, FeatureSpec("gripper", 1, "min_max")))
    joints = {**frame().joints, "shoulder_pan_joint": value}
    if value == -0.3:  # half a radian away is a posture
        assert binding.state(joints)[0] == -0.3
        return
    with pytest.raises(RobotError) as caught:
        binding.state(joints)
    assert explained in str(caught.value)
    assert ("would explain it" in str(caught.value)) == bool(explained)


def test_how_far_is_far_does_not_depend_on_the_checkpoints_unit():
    """In degrees a joint that hardly moved in training was refused a degree away."""
    still = {"min": np.array([17.0, *[-9.0] * 5]), "max": np.array([17.1, *[9.0] * 5])}
    arm = FeatureSpec("single_arm", 6, "min_max", statistics=still)
    degrees = {"state": {"kind": "affine", "scale": 57.29578}}
    mappings = {"mappings": {"shoulder_pan_joint": {**degrees, "command": degrees["state"]}}}
    binding = bind(config={**CONFIG, **mappings}, state=(arm, FeatureSpec("gripper", 1, "min_max")))
    binding.state(frame(shoulder_pan_joint=-0.6).joints)
    with pytest.raises(RobotError, match="'shoulder_pan_joint' is 114"):
        binding.state(frame(shoulder_pan_joint=2.0).joints)


def described(tmp_path, joint, text):
    """ur10e, one joint's description replaced by a YAML text."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: ur10e\nname: ur10e\njoints:\n  {joint}: {text}\n")
    return robots.load(file)


def trained(arm=(-1.5, 1.5), gripper=(0.0, 0.04)):
    """State and action features whose training saw this."""
    features = tuple(
        FeatureSpec(name, n, "min_max", statistics={"min": np.full(n, a), "max": np.full(n, b)})
        for name, n, (a, b) in (("single_arm", 6, arm), ("gripper", 1, gripper))
    )
    return {"state": features, "action": features}


@pytest.mark.parametrize(
    ("joint", "text", "seen", "texts"),
    [
        (
            "elbow_joint",
            "{offset: 25}",
            {},
            ["training saw 'elbow_joint' at 23.5 to 26.5 rad, and no joint is", "its offset, sca"],
        ),
        (
            "elbow_joint",
            "{offset: 20}",
            {"arm": (0.0, 0.5)},
            ["found -3.14159 to 3.14159 rad, which are -23.1416 to -16.8584", "correct its offset"],
        ),
        (
            "wrist_1_joint",
            "{}",
            {"arm": (-98.0, 102.0)},
            [
                "'wrist_1_joint' at -98 to 102 rad, 'wrist_2_joint' at -98 to 102 rad",
                "degrees, scale: 57.29578 is missing; if it speaks LeRobot's -100 to 100",
            ],
        ),
        (
            "finger_joint",
            "{}",
            {"gripper": (0.0, 100.0)},
            ["at 0 to 100 m", "shares or percents of its opening", "docs/robots.md"],
        ),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_before_anything_runs(
    tmp_path, joint, text, seen, texts
):
    """What policy_node would refuse of every frame, and what no joint could be commanded."""
    with pytest.raises(NumbersError) as caught:
        bind(described(tmp_path, joint, text), **trained(**seen))
    for expected in ["gr00t.yaml: robots.ur10e: state: ", f"{joint!r}", "mine.yaml", *texts]:
        assert expected in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("text", "arm", "met"),
    [
        ("{position: [-1, 1]}", (1.325, 2.713), False),
        ("{position: [2.8, 3.1]}", (1.325, 2.713), False),
        ("{position: [-1, 1.4]}", (1.325, 2.713), True),
        ("{position: [1.8, 2.0]}", (1.325, 2.713), True),
        ("{offset: 10}", (-1.5, 1.5), False),
        ("{sign: -1, position: [-1, 1]}", (-2.713, -1.325), False),
        ("{scale: 57.29578, position: [-1, 1]}", (-20.0, 20.0), True),
        ("{scale: 57.29578, position: [-1, 1]}", (76.0, 155.0), False),
        ("{position: [0.3, 1.3]}", (0.27, 0.28), True),  # a stop that two measured differently
        ("{position: [0.3, 1.3]}", (0.2, 0.24), False),
        ("{scale: 57.29578, position: [0.3, 1.3]}", (15.5, 16.0), True),
    ],
)
@pytest.mark.parametrize("side", ["state", "action"])
def test_limits_that_exclude_all_that_training_saw_are_refused(tmp_path, text, arm, met, side):
    """The arm would be driven against them at once. Narrowed ones that leave a part are meant."""
    seen = trained()
    column = FeatureSpec("elbow", 1, "min_max", statistics=dict(zip(("min", "max"), arm, strict=1)))
    rest = [FeatureSpec(n, k, "min_max") for n, k in (("first", 2), ("wrists", 3), ("gripper", 1))]
    silent = tuple(FeatureSpec(f.name, f.size, "min_max") for f in seen["state"])
    sides = {"state": silent, "action": silent, side: (rest[0], column, *rest[1:])}
    robot = described(tmp_path, "elbow_joint", text)
    if met:
        assert bind(robot, **sides).doubts == ()
        return
    with pytest.raises(NumbersError) as caught:
        bind(robot, **sides)
    for said in (f"ur10e: {side}: 'elbow_joint'", "mine.yaml: joints.elbow_joint.position: expec"):
        assert said in str(caught.value), str(caught.value)
    assert f"training saw it, {arm[0]:g} to {arm[1]:g}" in str(caught.value)


def test_limits_in_which_training_was_for_a_few_frames_only_are_doubted(tmp_path):
    seen = {"min": np.full(6, -0.2), "max": np.full(6, 2.7), "q01": np.full(6, 1.3)}
    arm = FeatureSpec("single_arm", 6, "quantiles", statistics={**seen, "q99": np.full(6, 2.6)})
    state = (arm, FeatureSpec("gripper", 1, "quantiles"))
    robot = described(tmp_path, "elbow_joint", "{position: [-1, 1]}")
    (found,) = bind(robot, state=state).doubts
    assert found.startswith("state: elbow_joint: its limits -1 to 1 rad are -1 to 1 to the check")
    assert "training saw it at 1.3 to 2.6 but for a few frames" in found


def test_a_frame_in_which_an_encoder_fell_out_does_not_refuse_a_checkpoint():
    ends = (("min", -900.0), ("max", 900.0), ("q01", -1.5), ("q99", 1.5))
    seen = {name: np.full(6, value) for name, value in ends}
    arm = FeatureSpec("single_arm", 6, "quantiles", statistics=seen)
    state = (arm, FeatureSpec("gripper", 1, "quantiles"))
    assert bind(state=state).doubts == ()
    only = {name: seen[name] for name in ("min", "max")}
    with pytest.raises(NumbersError, match="at -900 to 900 rad"):
        bind(state=(replace(arm, statistics=only), state[1]))


def test_actions_are_held_against_training_too(tmp_path):
    """Degrees commanded, radians seen: the arm would run into its limits."""
    state, degrees = trained(), trained(arm=(-98.0, 102.0))
    with pytest.raises(NumbersError, match=r"ur10e: action: .*'elbow_joint' at -98 to 102 rad"):
        bind(state=state["state"], action=degrees["action"])
    command = {"command": {"kind": "affine", "scale": 57.29578}}
    mappings = dict.fromkeys(JOINTS[:6], command)
    config = {**CONFIG, "mappings": mappings}
    bind(config=config, state=state["state"], action=degrees["action"])


@pytest.mark.parametrize(
    ("joint", "text", "seen", "doubt"),
    [
        ("finger_joint", "{}", {"gripper": (0.0, 1.0)}, "shares or percents"),
        ("elbow_joint", "{position: [-0.1, 0.1]}", {}, "if the checkpoint speaks degrees"),
        ("elbow_joint", "{position: [-0.5, 0.5]}", {}, ""),
        ("elbow_joint", "{offset: 2.0}", {}, ""),
        ("elbow_joint", "{}", {"arm": (0.3, 0.3)}, ""),
    ],
)
def test_numbers_that_are_likely_not_meant_are_doubted(tmp_path, joint, text, seen, doubt):
    binding = bind(described(tmp_path, joint, text), **trained(**seen))
    if not doubt:
        assert binding.doubts == ()
        return
    (found,) = binding.doubts
    assert found.startswith(f"state: {joint}: ")
    assert doubt in found


def test_a_gripper_that_is_seen_in_shares_and_commanded_in_metres_is_doubted(tmp_path):
    """It would open at the least that is more than nothing."""
    shares = "{kind: opening, zero: 0.0, one: 0.04}"
    seen = trained(gripper=(0.0, 1.0))
    half = described(tmp_path, "finger_joint", f"{{gripper: {{state: {shares}}}}}")
    (found,) = bind(half, **seen).doubts
    assert found.startswith("action: finger_joint: training saw 0 to 1, which would be 0 to 1 m")
    percents = "{kind: opening, zero: 0.0, one: 0.0004}"
    mapped = f"{{gripper: {{state: {percents}, command: {percents}}}}}"
    hundred = trained(gripper=(0.0, 100.0))
    assert bind(described(tmp_path, "finger_joint", mapped), **hundred).doubts == ()
    both = f"{{gripper: {{state: {shares}, command: {shares}}}}}"
    assert bind(described(tmp_path, "finger_joint", both), **seen).doubts == ()


def test_what_comes_with_the_package_leaves_no_doubt():
    for model, robot in pairing.packaged():
        description = robots.load(robot)
        chosen = model_file.choose(model, description.name)
        (spec,) = describe(
            chosen.checkpoint, family=chosen.family, embodiment=chosen.embodiment, revision=None
        ).specs
        assert Binding(description, spec, chosen.part, source=chosen.source).doubts == ()


def test_an_optional_camera_may_have_no_role():
    binding = bind(cameras=("video.scene",), optional_cameras=("video.top", "video.wrist"))
    assert binding.roles == {"video.scene": "scene", "video.wrist": "wrist"}
    assert binding.optional_cameras == ("wrist",)


def test_missing_joint_in_the_frame_is_named():
    joints = frame().joints
    del joints["elbow_joint"]
    with pytest.raises(RobotError, match=r"'elbow_joint' is missing; found .*finger_joint"):
        bind().state(joints)


def test_wrong_chunk_width_is_named():
    with pytest.raises(RobotError, match=r"actions: expected \[rows, 7\], found \[16, 8\]"):
        bind().positions(np.zeros((16, 8)), {})


def test_the_model_yaml_part_of_one_robot():
    model = {"family": "gr00t", "robots": {"ur10e": {"step": 0.05}}}
    assert for_robot(model, "ur10e").step == 0.05
    assert for_robot(model, "aloha").step is None
    model["robots"]["ur10e"]["step"] = 50
    with pytest.raises(RobotError, match=r"step: expected at most 5 s \(is it in milliseconds\?\)"):
        for_robot(model, "ur10e")
    with pytest.raises(RobotError, match=r"m.yaml: robots.ur10e: stp: unknown key"):
        for_robot({"robots": {"ur10e": {"stp": 1}}}, "ur10e", "m.yaml")


def test_this_room_needs_no_torch():
    code = (
        "import sys; import phyai_ros.robots.binding, phyai_ros.control.handoff, "
        "phyai_ros.control.align; bad = {'torch', 'rclpy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
