# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Episodes in virtual time: the policy in the simulator, with the delay that inference will have.

A chunk observed at tick t is first used at tick t + delay, from its row ``delay``; it is executed
until the next one takes over, ``execution`` ticks later. So is the handoff's schedule.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from phyai_ros.engine.types import ActionChunk, Observation
from phyai_ros.sim import task
from phyai_ros.sim.kinematics import JOINTS
from phyai_ros.sim.world import World

STEP = 0.05
"""Seconds between the rows of a chunk and between control ticks."""


class Infers(Protocol):
    def infer(self, observation: Observation, noise: np.ndarray | None = None) -> ActionChunk: ...


@dataclass(frozen=True)
class Result:
    """distance: tool to the asked block's target point at the end, m; others: to the other
    blocks'. time: of success (or the episode's), s. jerk: greatest of a joint command, rad/s^3.
    inference: median wall time of one inference, s."""

    seed: int
    instruction: str
    target: str
    success: bool
    time: float
    distance: float
    others: float
    jerk: float
    inference: float

    def asdict(self) -> dict[str, Any]:
        return asdict(self)


def observe(world: World, cameras: tuple[str, ...]) -> Observation:
    """cameras: the checkpoint's keys; a key ends with the simulator's camera name."""
    images = {key: world.render(key.rsplit(".", 1)[-1]) for key in cameras}
    return Observation(images, world.state().joints, world.instruction, world.time)


def episode(
    policy: Infers,
    cameras: tuple[str, ...],
    world: World,
    seed: int,
    *,
    instruction: str | None = None,
    delay: int = 2,
    execution: int = 8,
    limit: float = task.TIME_LIMIT,
    stay: bool = False,
) -> Result:
    """One seeded episode. instruction: instead of the seed's own. stay: do not stop at success."""
    state = world.reset(seed)
    if instruction is not None:
        colour = task.target_colour(instruction)
        world.set_state(type(state)(state.joints, state.blocks, instruction, colour))
    rng = np.random.default_rng(seed)
    chunk: np.ndarray | None = None
    first, started = 0, 0
    coming: tuple[int, np.ndarray] | None = None
    commands, took = [], []
    for tick in range(round(limit / STEP)):
        if coming is not None and tick >= coming[0] + delay:
            first, chunk = coming
            coming, started = None, tick
        if coming is None and (chunk is None or tick + delay >= started + execution):
            observation = observe(world, cameras)
            noise = rng.standard_normal(_noise_shape(policy), np.float32)
            before = time.perf_counter()
            coming = tick, policy.infer(observation, noise=noise).actions
            took.append(time.perf_counter() - before)
            if delay == 0:
                first, chunk, coming, started = tick, coming[1], None, tick
        if chunk is not None:
            row = chunk[min(tick - first, len(chunk) - 1)]
            commands.append(row)
            world.set_command(dict(zip(JOINTS, row.tolist(), strict=True)))
        world.step(STEP)
        if world.success() and not stay:
            break
    tip, _ = world.physics.tool()
    blocks = world.state().blocks
    away = {
        c: float(np.linalg.norm(tip - task.target_point(np.array(b[:2]))))
        for c, b in blocks.items()
    }
    jerk = np.abs(np.diff(np.array(commands)[:, :6], 3, axis=0)).max() / STEP**3
    return Result(
        seed,
        world.instruction,
        world.target,
        world.success(),
        world.time,
        away.pop(world.target),
        min(away.values()),
        float(jerk),
        float(np.median(took)),
    )


def _noise_shape(policy: Any) -> tuple[int, int]:
    return policy.spec.horizon, policy.spec.model_action_dim
