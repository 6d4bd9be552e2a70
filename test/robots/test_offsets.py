# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Positions or offsets: the observed position is added once, and to no position."""

from pathlib import Path

import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.nodes import model_file
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.errors import NumbersError
from phyai_ros.tools.describe import describe

JOINTS = robots.load("ur10e").joint_names
ARM = JOINTS[:6]
WAS = ((-1.2, 0.5), (-2.2, -0.8), (1.3, 2.7), (-2.8, -1.4), (-1.9, -1.2), (-0.6, 0.6), (0.0, 0.04))
"""Where each joint was in training, as that of the embedded checkpoints."""
OFFSETS = ((-0.4, 0.4),) * 6 + ((0.0, 0.04),)
BY_THEMSELVES = ("gr00t", "pi05")
"""Models whose embedded checkpoints make the arm's columns absolute."""


def features(ranges, own=(), scale=1.0):
    """own: joints whose columns the checkpoint makes absolute itself."""
    return tuple(
        FeatureSpec(
            f"{name}.pos",
            1,
            "min_max",
            name in own,
            {} if ends is None else {"min": scale * ends[0], "max": scale * ends[1]},
        )
        for name, ends in zip(JOINTS, ranges, strict=True)
    )


def bind(robot, action, state=WAS, relative=None, own=(), scale=1.0, **part):
    spec = PolicySpec(
        family="pi05",
        checkpoint="checkpoints/mine",
        cameras=("scene", "wrist"),
        optional_cameras=(),
        state=features(state, scale=scale),
        action=features(action, own, scale),
        horizon=16,
        denoising_steps=4,
        model_action_dim=32,
        step=0.05,
    )
    return Binding(robot, spec, {"relative": relative, **part}, source="mine_model.yaml")


def robot(tmp_path, actions="absolute", joints="{}"):
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: ur10e\nname: ur10e\nactions: {actions}\njoints: {joints}\n")
    return robots.load(file)


def refusal(*args, **kwargs):
    with pytest.raises(NumbersError) as caught:
        bind(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("model", BY_THEMSELVES)
@pytest.mark.parametrize("by_model", [False, True])
def test_no_position_is_added_that_the_checkpoint_adds_itself(tmp_path, model, by_model):
    """The arm swept to its limits, and ``check`` had said ok."""
    chosen = model_file.choose(model, "ur10e")
    (spec,) = describe(
        chosen.checkpoint, family=chosen.family, embodiment=chosen.embodiment, revision=None
    ).specs
    part = chosen.part.model_copy(update={"relative": ARM}) if by_model else chosen.part
    mine = robot(tmp_path, "absolute" if by_model else "relative")
    with pytest.raises(NumbersError) as caught:
        Binding(mine, spec, part, source=chosen.source)
    said = str(caught.value)
    name = Path(chosen.source).name
    where = f"{name}: robots.ur10e: relative: exp" if by_model else "mine.yaml: actions: expected"
    assert where in said
    assert spec.checkpoint in said
    assert "the observed position would be added twice" in said
    for joint, column in zip(ARM, spec.action_names, strict=False):
        assert f"{column!r} ({joint})" in said
    assert "(finger_joint)" not in said
    assert (
        "write relative: []" in said if by_model else "found relative: write actions: abs" in said
    )


def test_the_way_out_leaves_the_columns_that_are_offsets(tmp_path):
    own = ARM[:4]
    said = refusal(robot(tmp_path, "relative"), OFFSETS, own=own)
    left = "relative: [], or relative: [wrist_2_joint, wrist_3_joint] if these are offsets"
    alone = "or of this checkpoint alone in mine_model.yaml: robots.ur10e"
    assert said.endswith(f"found relative: write actions: absolute, {alone}: {left}")
    said = refusal(robot(tmp_path), OFFSETS, own=own, relative=list(ARM))
    assert "mine_model.yaml: robots.ur10e: relative: expected no joint" in said
    assert said.endswith(f"found {list(ARM)}: write {left}")
    # As it says: these are bound, and added to.
    both = bind(robot(tmp_path, "relative"), OFFSETS, own=own, relative=list(ARM[4:]))
    assert both.doubts == ()
    at = {name: np.mean(ends) for name, ends in zip(JOINTS, WAS, strict=True)}
    row = both.positions(np.full((1, 7), 0.01), at)[0]
    np.testing.assert_allclose(row[:4], 0.01)
    np.testing.assert_allclose(row[4:6], [at[name] + 0.01 for name in ARM[4:]])


@pytest.mark.parametrize("scale", [1.0, 57.29578])
def test_no_position_is_added_to_positions(tmp_path, scale):
    """A checkpoint that was trained on positions says of no column that it is relative."""
    joints = ", ".join(f"{name}: {{scale: {scale}}}" for name in ARM)
    mine = robot(tmp_path, "relative", f"{{{joints}}}")
    ends = [*WAS[:6], None]
    said = refusal(mine, ends, state=ends, scale=scale)
    assert "mine.yaml: actions: expected columns that are offsets" in said
    assert f"'elbow_joint' to {scale * 1.3:g} to {scale * 2.7:g} (it was at " in said
    assert "these are positions" in said
    assert "'wrist_3_joint'" not in said, "about zero, where nothing tells"
    assert bind(robot(tmp_path, "absolute", f"{{{joints}}}"), ends, ends, scale=scale).doubts == ()


def test_offsets_that_are_said_to_be_are_bound_without_doubt(tmp_path):
    assert bind(robot(tmp_path, "relative"), OFFSETS).doubts == ()
    assert bind(robot(tmp_path), OFFSETS, relative=list(ARM)).doubts == ()
    own = bind(robot(tmp_path), OFFSETS, own=ARM)
    assert own.doubts == ()


@pytest.mark.parametrize(
    ("sent", "was"),
    [
        ((0.15, 0.25), (1.3, 2.7)),  # a leader that stands a little ahead of the arm
        ((-0.1, 1.6), (0.2, 2.2)),  # a joint that only ever rises
        ((0.05, 1.5), (0.05, 1.5)),  # so near zero that nothing tells
    ],
)
def test_what_may_be_offsets_is_taken_at_its_word(tmp_path, sent, was):
    action, state = ([*WAS[:2], ends, *WAS[3:]] for ends in (sent, was))
    assert bind(robot(tmp_path), action, state, relative=["elbow_joint"]).doubts == ()


def test_offsets_that_nothing_says_to_be_are_doubted(tmp_path):
    (found,) = bind(robot(tmp_path), OFFSETS).doubts
    assert "elbow_joint to -0.4 to 0.4 (it was at 1.3 to 2.7)" in found
    assert "shoulder_pan_joint" not in found, "about zero, where nothing tells"
    assert "finger_joint" not in found
    assert "mine.yaml lacks actions: relative, or mine_model.yaml: robots.ur10e lacks" in found


@pytest.mark.parametrize(
    "action",
    [
        WAS,
        [(low - 0.1, high + 0.1) for low, high in WAS[:6]] + [WAS[6]],
        [(min(low, 0.0), max(high, 0.0)) for low, high in WAS],  # zeros at an episode's end
        [(min(a + b, 0.0) / 2, max(a + b, 0.0) / 2) for a, b in WAS],  # half of where it was
        [*WAS[:2], (-0.1, 0.1), *WAS[3:]],  # one of four is a joint of its own
        [None] * 7,
    ],
)
def test_positions_leave_no_doubt(tmp_path, action):
    assert bind(robot(tmp_path), action).doubts == ()


def test_a_joint_whose_state_nothing_tells_leaves_no_doubt(tmp_path):
    assert bind(robot(tmp_path), OFFSETS, state=[None] * 7).doubts == ()
    bind(robot(tmp_path, "relative"), WAS, state=[None] * 7)
