# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Left-over actions on their way to the solver, with the embedded checkpoint."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from phyai_ros import robots
from phyai_ros.control.frame import Frame
from phyai_ros.control.states import Request
from phyai_ros.engine.policy import load_policy
from phyai_ros.nodes import guided, model_file
from phyai_ros.nodes.answering import Answering
from phyai_ros.robots.binding import Binding
from phyai_ros.sim import kinematics as kin

STEP = 0.05
NOW = 500.0


@pytest.fixture(scope="module")
def policy():
    model, source = model_file.load("gr00t")
    return load_policy(model_file.checkpoint_path(model.checkpoint, source), embodiment="ur10e_sim")


@pytest.fixture(scope="module")
def binding(policy):
    model, source = model_file.load("gr00t")
    part = model_file.robot_part(model, "ur10e", source)
    return Binding(robots.load("ur10e"), policy.spec, part, source=source)


def frame(stamp=NOW, offset=0.0):
    joints = dict(zip(kin.JOINTS, [*(kin.HOME + offset), 0.02], strict=True))
    rng = np.random.default_rng(3)
    images = {
        role: rng.integers(0, 256, (240, 320, 3), dtype=np.uint8) for role in ("scene", "wrist")
    }
    return Frame(stamp, stamp, images, joints, dict.fromkeys(joints, 0.0), 0.0, 0.0)


def planned(rows=12):
    """Left-over actions [rows, joints]: row k moves joint j to a place of its own."""
    at = kin.HOME + 0.001 * np.arange(rows)[:, None] * np.arange(1, 7)
    return np.hstack([at, np.full((rows, 1), 0.03)])


def request(leftover=None, first=NOW, committed=4, names=kin.JOINTS):
    rows = planned() if leftover is None else leftover
    return Request(
        7, 1, -1, NOW - 1.0, 3, first, tuple(names), STEP, rows, committed, "reach the red block"
    )


def test_row_zero_is_the_observations_tick_and_nothing_is_padded(binding):
    wish = guided.guidance(request(first=NOW - 3 * STEP), frame(), binding, "rtc_identity")
    assert len(wish.leftover) == 12 - 3
    assert wish.committed == 1
    back = binding.positions(wish.leftover, frame().joints)
    np.testing.assert_allclose(back, planned()[3:], atol=1e-12)


def test_columns_are_found_by_name(binding):
    names = kin.JOINTS[::-1]
    wish = guided.guidance(
        request(planned()[:, ::-1], names=names), frame(), binding, "rtc_identity"
    )
    np.testing.assert_allclose(
        binding.positions(wish.leftover, frame().joints), planned(), atol=1e-12
    )
    with pytest.raises(ValueError, match=r"expected the joints .*found \['a'.*same robot"):
        guided.guidance(request(names=list("abcdefg")), frame(), binding, "rtc_identity")


def test_the_gripper_is_left_out(binding, policy):
    wish = guided.guidance(request(), frame(), binding, "rtc_identity")
    assert wish.columns.tolist() == [True] * 6 + [False]
    assert policy.spec.action_names[6] == "gripper"


@pytest.mark.parametrize(
    "asked",
    [
        request(np.zeros((0, 7)), committed=0),
        request(first=NOW + STEP),  # the observation is older than the first row
        request(first=NOW - 12 * STEP),  # and here all of it has been executed
    ],
)
def test_where_there_is_nothing_to_agree_with_there_is_no_guidance(binding, asked):
    assert guided.guidance(asked, frame(), binding, "rtc_identity") is None


def test_left_over_rows_are_anchored_at_the_observation(binding, policy):
    """Relative columns: the same absolute actions, seen from elsewhere, stay the same actions."""
    for offset in (0.0, 0.01):
        seen = frame(offset=offset)
        wish = guided.guidance(request(), seen, binding, "rtc_identity")
        observation = binding.observation(seen, "reach the red block")
        normalised = policy.adapter.encode(wish.leftover, observation)
        full = np.zeros((1, policy.spec.horizon, normalised.shape[1]))
        full[0, : len(normalised)] = normalised
        (decoded,) = policy.adapter.decode(torch.from_numpy(full).float(), [observation])
        np.testing.assert_allclose(
            binding.positions(decoded, seen.joints)[:12, :6], planned()[:, :6], atol=1e-4
        )


@pytest.mark.parametrize("method", ["rtc_identity", "rtc_overlap", "seam"])
def test_a_guided_chunk_agrees_with_the_left_over(policy, binding, method):
    asked, seen = request(), frame()

    def distance(handoff):
        answering = Answering(policy, binding, 5, "test", handoff)
        chunk = answering.answer(seen, asked, "").chunk
        assert chunk.committed == 0
        return np.abs(chunk.positions[:4, :6] - planned()[:4, :6]).mean()

    assert distance(method) < 0.9 * distance("replace")


def test_without_left_over_a_guided_chunk_is_the_plain_one(policy, binding):
    asked = request(np.zeros((0, 7)), committed=0)
    plain, guided_ = (
        Answering(policy, binding, 5, "test", name).answer(frame(), asked, "").chunk.positions
        for name in ("replace", "rtc_identity")
    )
    np.testing.assert_array_equal(plain, guided_)


def test_a_blank_instruction_in_a_request_is_none(policy, binding):
    answering = Answering(policy, binding, 5, "test")
    asked = dataclasses.replace(request(), instruction=" \n ")
    assert answering.answer(frame(), asked, "reach the blue block").chunk.instruction == (
        "reach the blue block"
    )
    with pytest.raises(ValueError, match="no instruction yet"):
        answering.answer(frame(), asked, "  ")


def test_a_policy_that_cannot_be_guided_so_refuses_at_once(policy, binding):
    with pytest.raises(ValueError, match=r"'rtc_trained' needs a policy.*can do \[.*'seam'"):
        Answering(policy, binding, 0, "test", "rtc_trained")


def test_rtc_trained_commits_no_more_than_the_training_had(policy, binding):
    spec = dataclasses.replace(policy.spec, guidance_methods=("rtc_trained",), trained_delay=2)
    model, source = model_file.load("gr00t")
    trained = Binding(binding.robot, spec, model_file.robot_part(model, "ur10e", source))
    wish = guided.guidance(request(committed=4), frame(), trained, "rtc_trained")
    assert wish.committed == 2
    assert guided.decided(wish) == 2
    assert guided.decided(dataclasses.replace(wish, method="rtc_identity")) == 0
