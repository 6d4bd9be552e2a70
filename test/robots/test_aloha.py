# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ALOHA's description: joint order, and every gripper convention against formulas of its own."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros import robots
from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.errors import RobotError

ROBOT = robots.load("aloha")
NAMES = ROBOT.joint_names
GRIPPERS = ("left_gripper", "right_gripper")
CLOSED, OPEN = ROBOT.joints["left_gripper"].position
ANGLES = st.floats(CLOSED, OPEN)


def spec() -> PolicySpec:
    return PolicySpec(
        family="act",
        checkpoint="a checkpoint",
        cameras=("observation.images.cam_high",),
        optional_cameras=(),
        state=(FeatureSpec("observation.state", 14, "IDENTITY"),),
        action=(FeatureSpec("action", 14, "IDENTITY"),),
        horizon=50,
        denoising_steps=1,
        model_action_dim=14,
    )


def binding(convention: str | None) -> Binding:
    config = {"state": NAMES, "action": NAMES, "step": 0.02, "convention": convention}
    return Binding(ROBOT, spec(), config)


def metres(angle: float) -> float:
    """Interbotix xs_sdk: both links' shadows on the finger's rail."""
    horn = 0.022 * math.sin(angle)
    height = math.sqrt(0.022**2 - horn**2)
    return horn + math.sqrt(0.036**2 - height**2)


def share(value: float, zero: float, one: float) -> float:
    return (value - zero) / (one - zero)


SEEN = {
    None: lambda a: a,
    "metres": metres,
    "gym_aloha": lambda a: share(metres(a), 0.01844, 0.05800),
    "act": lambda a: share(metres(a), 0.01844, 0.05800),
    "aloha2": lambda a: share(metres(a), 0.0440, 0.0579),
    "openpi": lambda a: share(a, 0.5476, 1.6296),
    "lerobot_pi": lambda a: share(a, 0.4, 1.5),
}
COMMANDED = {
    None: lambda a: a,
    "metres": metres,
    "gym_aloha": lambda a: share(metres(a), 0.01844, 0.05800),
    "act": lambda a: share(a, -0.6213, 1.4910),
    "aloha2": lambda a: share(a, 0.6197, 1.6214),
    "openpi": lambda a: a - 0.5476,
    "lerobot_pi": lambda a: share(a, 0.4, 1.5),
}
FLIPPED = {"openpi", "lerobot_pi"}


def test_order_is_alohas():
    arm = ["waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper"]
    assert list(NAMES) == [f"{side}_{joint}" for side in ("left", "right") for joint in arm]
    assert ROBOT.discrete_joints == GRIPPERS
    assert ROBOT.control_rate == 50.0
    assert set(SEEN) - {None} == set(ROBOT.conventions)


@pytest.mark.parametrize("convention", SEEN)
@given(left=ANGLES, right=ANGLES, arm=st.floats(-1.5, 1.2))
def test_conventions_are_the_published_formulas_and_can_be_undone(convention, left, right, arm):
    bound = binding(convention)
    joints = dict.fromkeys(NAMES, arm) | {"left_gripper": left, "right_gripper": right}
    state = bound.state(joints)
    assert state[6] == pytest.approx(SEEN[convention](left), abs=1e-9)
    assert state[13] == pytest.approx(SEEN[convention](right), abs=1e-9)
    sign = -1.0 if convention in FLIPPED else 1.0
    for i, name in enumerate(NAMES):
        if name not in GRIPPERS:
            turned = name.split("_", 1)[1] in ("shoulder", "elbow")
            assert state[i] == (sign * arm if turned else arm)
    back = bound.joints(state)
    assert all(back[name] == pytest.approx(joints[name], abs=1e-7) for name in NAMES)

    positions = np.array([[joints[name] for name in NAMES]])
    rows = bound.actions(positions, joints)
    assert rows[0, 6] == pytest.approx(COMMANDED[convention](left), abs=1e-9)
    assert rows[0, 13] == pytest.approx(COMMANDED[convention](right), abs=1e-9)
    np.testing.assert_allclose(bound.positions(rows, joints), positions, atol=1e-7)


@given(value=st.floats(0.0, 1.0))
def test_openpi_through_the_robots_own_runtime_is_the_same_command(value):
    """openpi hands the runtime a share of -0.6213..1.4910, which the runtime turns into rad."""
    handed = share(value + 0.5476, -0.6213, 1.4910)
    runtime = -0.6213 + handed * (1.4910 + 0.6213)
    rows = np.zeros((1, 14))
    rows[0, 6] = value
    commanded = binding("openpi").positions(rows, dict.fromkeys(NAMES, 0.0))
    assert commanded[0, 6] == pytest.approx(runtime, abs=1e-12)


def test_openpi_sees_through_the_runtimes_opening_the_same_angle():
    """The runtime hands openpi a share of the opening, which it turns into rad by the crank."""
    for angle in np.linspace(CLOSED, OPEN, 20):
        handed = share(metres(angle), 0.01844, 0.05800)
        x = 0.01844 + handed * (0.05800 - 0.01844)
        again = math.asin((0.022**2 + x**2 - 0.036**2) / (2 * 0.022 * x))
        state = binding("openpi").state(dict.fromkeys(NAMES, 0.0) | {"left_gripper": angle})
        assert state[6] == pytest.approx(share(again, 0.5476, 1.6296), abs=1e-7)


def test_wrong_convention_names_what_there_is():
    with pytest.raises(RobotError, match=r"convention.*gym_aloha.*found 'gym_alhoa'.*mean"):
        binding("gym_alhoa")


def test_model_mapping_goes_before_the_convention():
    config = {
        "state": NAMES,
        "action": NAMES,
        "step": 0.02,
        "convention": "act",
        "mappings": {"left_gripper": {"state": {"kind": "affine", "offset": 1.0}}},
    }
    state = Binding(ROBOT, spec(), config).state(dict.fromkeys(NAMES, 0.0))
    assert state[6] == -1.0
    assert state[13] == pytest.approx(SEEN["act"](0.0))
