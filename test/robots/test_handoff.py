# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One way from a robot's description to its handoff."""

import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.robots.handoff import config_of, make_handoff


@pytest.mark.parametrize(("name", "plays_on"), [("ur10e", False), ("ur10e_driver", True)])
def test_what_the_description_decides_is_the_same_live_and_replayed(name, plays_on):
    robot = robots.load(name)
    config = config_of(robot, 8)
    assert config.plays_on is plays_on, "a controller of trajectories goes on with its plan"
    live = make_handoff(robot, config, "replace", live=True)
    replayed = make_handoff(robot, config, "replace", live=False)
    for made in (live, replayed):
        assert made.config is config
        assert made.config.discrete == ("finger_joint",)
        assert made.stall is not None
    assert live.tracking is not None
    assert replayed.tracking is None, "a recorded arm follows the recorded commands"


@pytest.mark.parametrize(
    ("arm", "gripper", "plays_on"),
    [
        ("joint_trajectory", "forward_command", True),
        ("forward_command", "joint_trajectory", False),
    ],
)
@pytest.mark.parametrize("arm_first", [True, False])
def test_whether_an_arm_plays_on_is_the_arms_own_controllers(
    tmp_path, arm, gripper, plays_on, arm_first
):
    joints = [name for name in robots.load("ur10e").joint_names if name != "finger_joint"]
    outputs = [
        f"{{type: {arm}, topic: /arm, joints: [{', '.join(joints)}]}}",
        f"{{type: {gripper}, topic: /gripper, joints: [finger_joint]}}",
    ]
    first, second = outputs if arm_first else reversed(outputs)
    file = tmp_path / "arm.yaml"
    file.write_text(f"extends: ur10e\noutput: {first}\nfurther_outputs: [{second}]\n")
    assert config_of(robots.load(str(file)), 8).plays_on is plays_on


LIMITS = "position: [-3.0, 3.0], velocity: 1.0, acceleration: 4.0"


@pytest.mark.parametrize(
    ("unit", "extra", "pushed", "moved"),
    [
        ("rad", "", 0.08, False),
        ("rad", "", 0.12, True),
        ("m", "", 0.02, False),
        ("m", "", 0.03, True),  # a rail that is pushed 3 cm: 0.1 of a rad's is no measure of it
        ("rad", "tracking: {rad: 0.6}", 0.25, False),  # an arm that sags is not let go of
        ("rad", "tracking: null", 0.12, True),
    ],
)
def test_whether_a_standing_joint_was_moved_is_measured_in_its_own_unit(
    tmp_path, unit, extra, pushed, moved
):
    file = tmp_path / "rail.yaml"
    file.write_text(
        f"name: rail\ncontrol_rate: 20\njoint_state_topics: [/joint_states]\n"
        f"joints: {{rail: {{unit: {unit}, {LIMITS}}}}}\n"
        f"cameras: {{scene: {{topic: /scene}}}}\noutput: {{topic: /commands}}\n{extra}\n"
    )
    robot = robots.load(str(file))
    handoff = make_handoff(robot, config_of(robot, 8), "replace", live=True)
    now, measured, commands = 100.0, np.zeros(1), []

    def tick():
        nonlocal now
        now += 0.05
        commands.append(handoff.tick(now, measured))
        return handoff.request(now)

    request = tick()
    rows = np.zeros((8, 1))
    handoff.accept(Chunk(request.request_id, request.epoch, now, ("rail",), 0.05, rows))
    for _ in range(40):
        tick()
    assert commands[-1].positions is not None  # stands at its command
    measured = np.array([pushed])
    for _ in range(40):
        tick()
    assert (commands[-1].positions is None) is moved
