# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Seeded episodes of one cell: when one begins, when it ends, what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np

from phyai_ros.sim import task
from phyai_ros.sim.cell import Cell


class Phase(Enum):
    """WAITING: for the first command. RUNNING: being judged. OVER: the outcome is known."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


@dataclass(frozen=True)
class Outcome:
    """seconds: from the first command to success, or the time limit. distance: tool centre to
    target point at that moment, m. commands: accepted in the episode. over: the block
    or cube that the tool was over then, None: of none."""

    success: bool
    seconds: float
    distance: float
    commands: int
    over: str | None


class Episodes:
    """Runs a cell's episodes one after the other; episode i has seed ``first_seed + i``.

    The arm of the next episode stands elsewhere, as no real arm could. So the first command must
    start from where it is: within ``start_tolerance`` (rad) of every arm joint. What an executor
    still sends for the episode before is refused, as a real controller would, and the time only
    starts with the first command taken.
    """

    def __init__(
        self,
        world: Cell,
        first_seed: int = 0,
        time_limit: float = task.TIME_LIMIT,
        start_tolerance: float = 0.2,
    ) -> None:
        self.world = world
        self.index = -1
        self.refused = 0
        self._first_seed = first_seed
        self._time_limit = time_limit
        self._tolerance = start_tolerance
        self.begin_next()

    @property
    def seed(self) -> int:
        return self._first_seed + self.index

    def begin_next(self) -> None:
        """Draws the next episode; the one before ends without an outcome if it has none."""
        self.index += 1
        self.world.reset(self.seed)
        self.phase = Phase.WAITING
        self.outcome: Outcome | None = None
        self.commands = 0
        self._started = 0.0

    def command(self, positions: np.ndarray) -> str | None:
        """Joint goals [n] in the order of the cell's joints; None, or why it is refused."""
        if self.phase is Phase.WAITING:
            arm = list(self.world.arm)
            away = np.abs(positions - self.world.physics.joints()[0])[arm]
            if away.max() > self._tolerance:
                self.refused += 1
                worst = int(away.argmax())
                return (
                    f"first command of the episode is {away[worst]:.3f} rad from where "
                    f"{self.world.joint_names[arm[worst]]} stands, allowed {self._tolerance:g}"
                )
            self.phase = Phase.RUNNING
            self._started = self.world.time
            self.world.judge_anew()
        self.commands += 1
        self.world.physics.command(positions)
        return None

    def update(self) -> Outcome | None:
        """Call after every step of the world: the outcome, once, when the episode ends."""
        if self.phase is not Phase.RUNNING:
            return None
        seconds = self.world.time - self._started
        if not self.world.success() and seconds < self._time_limit:
            return None
        self.phase = Phase.OVER
        self.outcome = Outcome(
            self.world.success(),
            round(seconds, 3),
            round(self.world.distance, 4),
            self.commands,
            self.world.over(),
        )
        return self.outcome

    def description(self) -> dict[str, object]:
        """What this episode is, and its outcome if there is one; fit for JSON."""
        about: dict[str, object] = {
            "episode": self.index,
            "seed": self.seed,
            "instruction": self.world.instruction,
            "target": self.world.target,
        }
        if self.outcome is not None:
            about.update(asdict(self.outcome))
        return about
