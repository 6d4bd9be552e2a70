# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One way from a robot's description to its handoff."""

import pytest

from phyai_ros import robots
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
