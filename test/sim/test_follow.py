# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The task follow: over a moving block for a continuous second."""

import numpy as np
import pytest

from phyai_ros.sim import kinematics as kin
from phyai_ros.sim import task, world
from phyai_ros.sim.conveyor import Conveyor
from phyai_ros.sim.expert import Expert

STEP = 0.05


def chase(cell, seconds=10.0, stop_after=np.inf):
    """The expert, one row a tick, until success; the time of success, None: never."""
    expert = Expert(cell)
    while cell.time < seconds:
        if cell.time < stop_after:
            cell.set_command(dict(zip(kin.JOINTS, expert.chunk()[0], strict=True)))
        cell.step(STEP)
        if cell.success():
            return cell.time
    return None


@pytest.mark.parametrize("conveyor", [None, Conveyor(0.08), Conveyor(0.04, reversing=True)])
@pytest.mark.parametrize("seed", range(3))
def test_the_expert_follows(conveyor, seed):
    reach = world.make(seed=seed, conveyor=conveyor or Conveyor(world.FOLLOW_SPEED))
    follow = world.make(task="follow", seed=seed, conveyor=conveyor)
    reached, followed = chase(reach), chase(follow)
    assert followed == pytest.approx(reached + task.FOLLOW_HOLD - task.HOLD, abs=STEP)


def test_an_arm_that_stops_loses_the_block():
    cell = world.make(task="follow", seed=1, conveyor=Conveyor(0.08))
    reached = chase(world.make(seed=1, conveyor=Conveyor(0.08)))
    assert chase(cell, stop_after=reached - task.HOLD + 0.1) is None


def test_a_block_that_has_arrived_is_no_longer_followed():
    cell = world.make(task="follow", seed=1, conveyor=Conveyor(0.3))
    assert chase(cell, seconds=6.0) is None
    assert cell.distance < task.TOLERANCE
