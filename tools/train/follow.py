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
and not to look. And they are made as the chunks are that go on from them, for those will be the
plans of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phyai_ros.sim import expert, task
from phyai_ros.sim import kinematics as kin
from phyai_ros.sim.sampling import sample_arm
from phyai_ros.sim.state import State

MAX_DELAY = 8
"""Most rows of a plan that are decided; ``rtc_training_max_delay`` of the checkpoint."""
STEP = 0.05
"""Seconds between two rows."""
BELT_SHARE = 0.7
"""Blocks of samples with a conveyor in the picture."""
MOVING = 0.8
"""Share of the blocks on a belt that move."""
SPEEDS = (0.01, 0.08)
"""Of a moving block, m/s."""
BEHIND = 0.6
"""Share of the arms over a moving block that are after it already."""
AGES = (8, 0.7, 4, 12)
"""Ticks since a plan was made: mostly the first number (its share), else between the others."""
LAG = 0.10
"""Most seconds by which the measured arm is behind its command."""
AIM = 0.003
"""Standard deviation of where a plan aims, m."""
TURN = 0.6
"""Share of the step before that is left in the next."""


@dataclass(frozen=True)
class Moment:
    """state: what is seen. plan: [MAX_DELAY + 1, 7], the command before this tick, then those that
    are decided from it on."""

    state: State
    plan: np.ndarray


def draw(rng: np.random.Generator, belt: float | None) -> Moment:
    """A random moment; with ``belt`` the target block lies at that x and may move along y."""
    instruction, target = task.draw_instruction(rng)
    blocks = task.draw_blocks(rng, None if belt is None else (target, belt))
    velocity = np.zeros(2)
    if belt is not None and rng.random() < MOVING:
        velocity[1] = rng.choice([-1.0, 1.0]) * rng.uniform(*SPEEDS)
    usual, share, least, most = AGES
    age = usual if rng.random() < share else int(rng.integers(least, most + 1))
    commands = _plan(rng, blocks, target, velocity, age)
    now = commands[age - 1 :]
    lag = float(rng.uniform(0.0, LAG)) / STEP
    late = commands[max(age - 1 - int(lag), 0)]
    later = commands[max(age - 2 - int(lag), 0)]
    joints = late + (lag - int(lag)) * (later - late) + rng.normal(0.0, 0.001, 7)
    low, high = kin.POSITION_LIMITS.T
    state = State(np.clip(joints, low, high), blocks, instruction, target, velocity)
    return Moment(state, now)


def _plan(
    rng: np.random.Generator,
    blocks: dict[str, tuple[float, float, float]],
    target: str,
    velocity: np.ndarray,
    age: int,
) -> np.ndarray:
    """Commands [age + MAX_DELAY, 7] of a plan that was made ``age`` ticks ago."""
    block, speed = np.array(blocks[target][:2]), float(velocity[1])
    then = block - age * STEP * velocity
    believed = _belief(rng, speed)
    if speed and rng.random() < BEHIND:
        joints = _after(rng, then, speed)
    else:
        joints = sample_arm(rng, {**blocks, target: (*map(float, then), 0.0)}, target)
    drift = np.array([0.0, believed])
    path = expert.goals(then + rng.normal(0.0, AIM, 2), drift, age + MAX_DELAY, STEP)
    # How fast it went then: with the block, as the expert would, or anything between.
    along = expert.goals(then, velocity, 1, STEP)
    there = along[1] - along[0] if rng.random() < 0.5 else path[1] - path[0]
    wanted = there + expert.shrink(joints - path[0], STEP) - (joints - path[0])
    return go_on(joints - rng.uniform(0.0, 1.0) * wanted, joints, path)


def _after(rng: np.random.Generator, block: np.ndarray, speed: float) -> np.ndarray:
    """An arm [7] that is after the block: mostly behind it by what it moves in up to 0.7 s."""
    offset = rng.normal(0.0, [0.006, 0.006, 0.004])
    offset[1] -= speed * rng.uniform(-0.3, 0.7)
    if rng.random() < 0.2:
        offset[2] += rng.uniform(0.0, 0.06)
    arm = kin.tool_down(task.target_point(block) + offset) + rng.normal(0.0, 0.005, 6)
    finger = expert.FINGER_OPEN + rng.normal(0.0, 0.001)
    low, high = kin.POSITION_LIMITS.T
    return np.clip(np.append(arm, finger), low, high)


def _belief(rng: np.random.Generator, speed: float) -> float:
    """What a plan took for the block's speed, m/s."""
    kind = rng.random()
    if kind < 0.5:
        return float(speed * rng.normal(1.0, 0.2) + rng.normal(0.0, 0.003))
    if kind < 0.8:
        return 0.0
    if kind < 0.92:
        return float(speed * rng.uniform(-1.0, 1.0))
    return float(rng.normal(0.0, 0.03))


def chunks(moment: Moment, joints: np.ndarray, horizon: int) -> np.ndarray:
    """[MAX_DELAY + 1, horizon, 7]: entry d has d rows of the plan and goes on from there as the
    expert does, without its sudden turns. joints [7]: as the world measures them."""
    block, plan = moment.state.target_block, moment.plan
    goals = expert.goals(block, moment.state.velocity, horizon, STEP)
    found = np.empty((MAX_DELAY + 1, horizon, plan.shape[1]))
    found[0] = expert.chunks(joints, block, 0.0, horizon, STEP)
    for k in range(horizon):
        if k < MAX_DELAY:
            found[k + 1 :, k] = plan[k + 1]
        if k:
            free = slice(1, min(k, MAX_DELAY) + 1)  # entries that row k is not decided of
            before = found[free, k - 2] if k > 1 else plan[:1]
            found[free, k] = _next(before, found[free, k - 1], goals[k : k + 2])
    return found


def go_on(before: np.ndarray, last: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """From the last two commands [7] towards goals [n + 1, 7]: rows [n, 7]."""
    rows = [before, last]
    for k in range(len(goals) - 1):
        rows.append(_next(rows[-2], rows[-1], goals[k : k + 2]))
    return np.array(rows[2:])


def _next(before: np.ndarray, last: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The command after the last two [..., 7], whose step turns from theirs to the expert's by
    ``1 - TURN``. goals: [2, 7], of the last one's time and of a step later."""
    wanted = goals[1] + expert.shrink(last - goals[0], STEP) - last
    return last + TURN * (last - before) + (1.0 - TURN) * wanted
