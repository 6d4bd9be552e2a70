# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A signal to handoff_node's process while the arm moves: its commands end at rest, within limits.

The test looks at every command to the very last one, over DDS.
"""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from driven_arm import PATIENCE, STEP, Driven

from phyai_ros import robots

DOMAIN = 57
SPEED = 1.6
"""rad/s; the limit is 2.09."""


@pytest.fixture
def drive():
    made: list[Driven] = []

    def start(robot: str) -> Driven:
        made.append(Driven(robot, DOMAIN, SPEED))
        return made[-1]

    yield start
    for driven in made:
        driven.close()


SLOW = "extends: ur10e\njoints: {shoulder_pan_joint: {acceleration: 1.6}}\n"
"""A second from SPEED to rest."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("slow", [False, True], ids=["ur10e", "an arm that brakes slowly"])
def test_the_last_command_of_a_signalled_node_is_at_rest(drive, tmp_path, number, slow):
    path = tmp_path / "arm.yaml"
    path.write_text(SLOW if slow else "extends: ur10e\n")
    driven, robot = drive(str(path)), robots.load(path)
    driven.until_moving()
    before = len(driven.commands)
    driven.process.send_signal(number)
    assert driven.process.wait(PATIENCE) == 0, driven.process.stdout.read()
    heard = -1
    while heard != len(driven.commands):  # what was on its way
        heard = len(driven.commands)
        time.sleep(0.2)
    said = driven.process.stdout.read()
    assert "MOVING" not in said, said
    assert heard > before + 2, "no command after the signal"
    speeds, ticks = driven.speeds()
    velocity = np.array([joint.velocity for joint in robot.joints.values()])
    acceleration = np.array([joint.acceleration for joint in robot.joints.values()])
    assert (np.abs(speeds) <= velocity + 1e-6).all()
    apart = STEP * (ticks[1:] + ticks[:-1])[:, None] / 2
    assert (np.abs(np.diff(speeds, axis=0)) <= acceleration * apart + 1e-6).all()
    np.testing.assert_array_equal(driven.commands[-1][1], driven.commands[-2][1])
