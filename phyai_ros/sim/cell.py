# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What every simulated robot offers: seeded episodes, stepping, commands by name, pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from phyai_ros.sim.render import Renderer


class Plant(Protocol):
    """Physics behind a cell. Joint arrays are in the order of the cell's ``joint_names``, in the
    units of the robot's interface. positions: a copy of all generalised positions (qpos)."""

    model: Any
    data: Any

    @property
    def timestep(self) -> float: ...

    @property
    def positions(self) -> np.ndarray: ...

    @property
    def goal(self) -> np.ndarray: ...

    def joints(self) -> tuple[np.ndarray, np.ndarray]: ...

    def command(self, goal: np.ndarray) -> None: ...

    def forward(self) -> None: ...

    def step(self) -> None: ...


class Cell(ABC):
    """One robot at one task. Use it from one thread; a ``Renderer`` of its own serves another.

    joint_names: of the robot's interface, in order. arm: places in it of the joints that no real
    arm could jump with (all but grippers). cameras: by the names of the robot description's roles.
    instruction, target: this episode's task in words, and what is to be reached.
    """

    joint_names: tuple[str, ...]
    arm: tuple[int, ...]
    cameras: tuple[str, ...]
    physics: Plant
    instruction: str
    target: str
    seed: int

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._renderer: Renderer | None = None
        self._due = 0.0

    @abstractmethod
    def reset(self, seed: int) -> Any:
        """Starts episode ``seed``: everything re-drawn; the same for a seed."""

    @abstractmethod
    def state(self) -> Any:
        """The present moment, as the robot's expert takes it."""

    @abstractmethod
    def judge_anew(self) -> None:
        """Only what happens from now on counts."""

    @abstractmethod
    def success(self) -> bool:
        """Whether the task of this episode has been done (once done, it stays so)."""

    @property
    @abstractmethod
    def distance(self) -> float:
        """Tool to where it belongs, m."""

    @abstractmethod
    def over(self) -> str | None:
        """What the tool is at now, by the task's tolerance; or None."""

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """What moves by itself, before a time step of the physics."""

    @abstractmethod
    def _look(self) -> None:
        """Judges the moment, after a time step."""

    def _begin(self) -> None:
        """The clock and the velocities of a new episode."""
        self.physics.data.time = 0.0
        self.physics.data.qvel[:] = 0.0
        self.physics.data.qacc_warmstart[:] = 0.0
        self._due = 0.0

    def step(self, dt: float) -> None:
        """Advances by ``dt`` seconds; what is less than a time step is kept for the next call."""
        self._due += dt
        timestep = self.physics.timestep
        while self._due >= timestep - 1e-9:
            self._due -= timestep
            self._advance(timestep)
            self.physics.step()
            self._look()

    def set_command(self, command: Mapping[str, float]) -> None:
        """Joint goals by name (robot units); joints that are not named keep theirs.

        Raises ValueError on an unknown joint or a value that is not finite; then nothing changes.
        """
        names = self.joint_names
        goal = self.physics.goal
        for name, value in command.items():
            if name not in names:
                raise ValueError(f"unknown joint {name!r}; there are {', '.join(names)}")
            if not np.isfinite(value):
                raise ValueError(f"command {value} for {name}: must be finite")
            goal[names.index(name)] = value
        self.physics.command(goal)

    def joints(self) -> dict[str, tuple[float, float]]:
        """Joint name -> (position, velocity), robot units."""
        positions, velocities = self.physics.joints()
        return {
            n: (float(p), float(v))
            for n, p, v in zip(self.joint_names, positions, velocities, strict=True)
        }

    def render(self, camera: str, positions: np.ndarray | None = None) -> np.ndarray:
        """Picture of ``camera``: uint8 [height, width, 3], RGB. positions: of an earlier moment
        (``physics.positions``), default now."""
        if self._renderer is None:
            self._renderer = Renderer(self.physics.model, *self._size)
        moment = self.physics.positions if positions is None else positions
        return self._renderer.render(moment, camera)

    @property
    def time(self) -> float:
        """Seconds since the episode began."""
        return float(self.physics.data.time)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
