# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Demonstrations of following a block, with plans that are already being executed.

What the policy is given is one moment: two pictures, joints, words. A block's speed is not in it.
Where a part of an older chunk is given as decided (training-time real-time chunking, arXiv
2512.05964), that part aims at where the block was thought to be when it was made, and beside the
picture it tells how the block moved since. So the chunk that goes on from a plan follows the block
with its true velocity; the one that has no plan to go on from takes the block as standing, which
is the middle of what it may do.

The plans are wrong as those of a policy are: made some time ago, with a velocity that was not known
then, aiming a few millimetres beside. A plan that were always right would teach to go on with it
and not to look.
"""

from __future__ import annotations

import numpy as np

from phyai_ros.sim import expert, task
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.sampling import sample_arm
from phyai_ros.sim.state import State

MAX_DELAY = 8
"""Most rows of a plan that are decided; ``rtc_training_max_delay`` of the checkpoint."""
BELT_SHARE = 0.7
"""Blocks of samples with a conveyor in the picture."""
MOVING = 0.8
"""Share of the blocks on a belt that move."""
SPEEDS = (0.01, 0.08)
"""Of a moving block, m/s."""
BEHIND = 0.5
"""Share of the arms over a moving block that are after it already."""
LAG = 0.10
"""Most seconds by which the measured arm is behind its command."""
AIM = 0.004
"""Standard deviation of where a plan aims, m."""


def draw(rng: np.random.Generator, belt: float | None) -> State:
    """A random state; with ``belt`` the target block lies at that x and may move along y."""
    instruction, target = task.draw_instruction(rng)
    blocks = task.draw_blocks(rng, None if belt is None else (target, belt))
    velocity = np.zeros(2)
    if belt is not None and rng.random() < MOVING:
        velocity[1] = rng.choice([-1.0, 1.0]) * rng.uniform(*SPEEDS)
    if velocity[1] and rng.random() < BEHIND:
        joints = _after(rng, np.array(blocks[target][:2]), float(velocity[1]))
    else:
        joints = sample_arm(rng, blocks, target)
    return State(joints, blocks, instruction, target, velocity)


def _after(rng: np.random.Generator, block: np.ndarray, speed: float) -> np.ndarray:
    """An arm [7] that is after the block: mostly behind it by what it moves in up to 0.7 s."""
    offset = rng.normal(0.0, [0.006, 0.006, 0.004])
    offset[1] -= speed * rng.uniform(-0.2, 0.7)
    if rng.random() < 0.2:
        offset[2] += rng.uniform(0.0, 0.06)
    arm = kin.tool_down(task.target_point(block) + offset) + rng.normal(0.0, 0.005, 6)
    finger = expert.FINGER_OPEN + rng.normal(0.0, 0.001)
    low, high = kin.POSITION_LIMITS.T
    return np.clip(np.append(arm, finger), low, high)


def chunks(
    rng: np.random.Generator, joints: np.ndarray, state: State, horizon: int, step: float
) -> np.ndarray:
    """[MAX_DELAY + 1, horizon, 7]: entry d has d rows of a random plan and goes on from there as
    the expert does. joints [7]: measured."""
    block = state.target_block
    decided = plan(rng, joints, block, float(state.velocity[1]), step)
    goals = expert.goals(block, state.velocity, horizon, step)
    found = [expert.chunks(joints, block, 0.0, horizon, step)]
    for d in range(1, MAX_DELAY + 1):
        rest = expert.towards(decided[d - 1], goals[d:], step)
        found.append(np.concatenate([decided[:d], rest]))
    return np.stack(found)


def plan(
    rng: np.random.Generator, joints: np.ndarray, block: np.ndarray, speed: float, step: float
) -> np.ndarray:
    """Rows [MAX_DELAY, 7] of an older chunk, from the tick of ``joints`` on."""
    # Chunks that are executed for eight ticks of 0.05 s; now and then for fewer or more.
    age = rng.normal(0.4, 0.03) if rng.random() < 0.7 else rng.uniform(0.15, 0.7)
    believed = _belief(rng, speed)
    drift = np.array([0.0, believed])
    aim = block + np.array([0.0, (believed - speed) * age]) + rng.normal(0.0, AIM, 2)
    lag = float(rng.uniform(0.0, LAG))
    ahead = aim + lag * drift
    command = expert.goal(ahead) + expert.shrink(joints - expert.goal(aim), lag)
    return expert.chunks(command, ahead, drift, MAX_DELAY, step)


def _belief(rng: np.random.Generator, speed: float) -> float:
    """What a plan took for the block's speed, m/s."""
    kind = rng.random()
    if kind < 0.4:
        return float(speed * rng.normal(1.0, 0.15))
    if kind < 0.75:
        return 0.0
    if kind < 0.9:
        return float(speed * rng.uniform(-1.0, 1.0))
    return float(rng.normal(0.0, 0.03))
