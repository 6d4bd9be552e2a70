# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Random single states for training: what a policy meets in closed loop, and around it."""

from __future__ import annotations

import numpy as np

from phyai_ros.sim.aloha import expert, task
from phyai_ros.sim.aloha import kinematics as kin
from phyai_ros.sim.aloha.task import State

_KINDS = ("start", "way", "near", "there", "other")
_SHARES = (0.15, 0.40, 0.20, 0.10, 0.15)


def sample_state(rng: np.random.Generator) -> State:
    """Random cube and arms. The right arm is at a start; on the expert's way from one, off the
    path by a few degrees; near the target; at it; or where it would belong for another cube."""
    cube = task.draw_cube(rng)
    kind = str(rng.choice(_KINDS, p=_SHARES))
    aim = task.draw_cube(rng) if kind == "other" else cube
    goal = expert.goal(aim)
    start = task.draw_start(rng)
    joints = start
    if kind in ("way", "other"):
        error = expert.shrink((start - goal)[kin.RIGHT], float(rng.uniform(0.0, 2.5)))
        spread = float(rng.choice([0.005, 0.03, 0.08]))
        joints[kin.RIGHT] = goal[kin.RIGHT] + error + rng.normal(0.0, spread, 7)
    elif kind == "near":
        offset = rng.uniform([-0.08, -0.08, -0.02], [0.08, 0.08, 0.10])
        joints[kin.RIGHT] = goal[kin.RIGHT] + rng.normal(0.0, 0.02, 7)
        joints[kin.RIGHT][:6] += kin.reach(task.target_point(aim) + offset, "right") - goal[7:13]
    elif kind == "there":
        joints[kin.RIGHT] = goal[kin.RIGHT] + rng.normal(0.0, 0.006, 7)
    joints[:6] += rng.normal(0.0, 0.01, 6)
    return State(np.clip(joints, *kin.POSITION_LIMITS.T), cube)
