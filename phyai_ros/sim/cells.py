# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The simulated robots by name: what each can do, and its cell. MuJoCo is imported by ``make``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from phyai_ros.sim import expert, scene, task
from phyai_ros.sim.aloha import expert as aloha_expert
from phyai_ros.sim.aloha import task as aloha_task
from phyai_ros.sim.conveyor import Conveyor

if TYPE_CHECKING:
    from phyai_ros.sim.cell import Cell


class Expert(Protocol):
    """Knows what is to be reached and where it is; no policy that sees pictures will do better."""

    def chunk(self, state: Any, horizon: int, step: float) -> np.ndarray:
        """Joint targets [horizon, joints] for a cell's ``state()``, in the order of its
        ``joint_names``; step: seconds between rows."""
        ...


@dataclass(frozen=True)
class Kind:
    """cameras: names a robot description may use as roles. tasks: what episodes can be about.
    expert: of a cell that ``make`` made."""

    cameras: tuple[str, ...]
    tasks: tuple[str, ...]
    make: Callable[..., Cell]
    expert: Callable[[Any], Expert]


def _ur10e(robot: str, task: str, seed: int, **more: object) -> Cell:
    from phyai_ros.sim import world

    return world.make(robot, task, seed, **more)  # type: ignore[arg-type]


def _aloha(robot: str, task: str, seed: int, *, conveyor: Conveyor | None, **more: object) -> Cell:
    from phyai_ros.sim.aloha.world import World

    if conveyor is not None:
        raise ValueError(f"the simulated {robot} has no conveyor: leave its speed at 0")
    return World(seed, **more)  # type: ignore[arg-type]


KINDS: Mapping[str, Kind] = {
    "ur10e": Kind(scene.CAMERAS, task.TASKS, _ur10e, expert.Expert),
    "aloha": Kind(aloha_task.CAMERAS, aloha_task.TASKS, _aloha, aloha_expert.Expert),
}
TASKS = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.tasks))
"""Of any robot."""


def kind(robot: str) -> Kind:
    """Raises ValueError listing the robots there are."""
    if robot not in KINDS:
        raise ValueError(f"unknown robot {robot!r}; the simulator has {', '.join(KINDS)}")
    return KINDS[robot]


def make(
    robot: str,
    task: str = "reach",
    seed: int = 0,
    *,
    width: int = 320,
    height: int = 240,
    conveyor: Conveyor | None = None,
    instruction: str | None = None,
) -> Cell:
    """A cell at the start of episode ``seed``. Raises ValueError listing what there is.

    width, height: of pictures. conveyor: carries what is to be reached. instruction: the same for
    every episode; by default each episode says its own.
    """
    found = kind(robot)
    if task not in found.tasks:
        raise ValueError(
            f"unknown task {task!r}; the simulated {robot} has {', '.join(found.tasks)}"
        )
    return found.make(
        robot, task, seed, width=width, height=height, conveyor=conveyor, instruction=instruction
    )
