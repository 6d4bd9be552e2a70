# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What a run was, as plain values: the monitor fills it, report and pictures read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from phyai_ros.control.states import State
from phyai_ros.nodes.outlets import Way

SHOWN = 2
"""Cameras of a frame on the film strip: one large, one in its corner."""
ACTING = (State.RAMPING, State.EXECUTING)


@dataclass(frozen=True)
class Tick:
    """One HandoffState. time: its header stamp, s. sent: s, wall clock of its publication. number:
    of the tick, missed ones counted. The counters are the handoff's running totals. first_use: its
    chunk is used for the first time; deliver: s, NaN on other ticks."""

    time: float
    sent: float
    state: State
    request_id: int
    epoch: int
    index: int
    remaining: int
    expected_delay: int
    measured_delay: int
    missed_ticks: int
    starved_ticks: int
    limited_ticks: int
    late_chunks: int
    dropped_chunks: int
    action_age: float
    jitter: float
    deliver: float
    number: int = 0

    @property
    def first_use(self) -> bool:
        return self.deliver == self.deliver


@dataclass(frozen=True)
class ChunkSeen:
    """One ActionChunk. received, observed: s, ROS time. stages: seconds by name, without
    ``deliver``. rows: horizon."""

    received: float
    observed: float
    request_id: int
    epoch: int
    rows: int
    stages: Mapping[str, float]


@dataclass(frozen=True)
class Frame:
    """A moment of the cameras: role -> uint8 [height, width, 3], RGB. time: s."""

    time: float
    images: Mapping[str, np.ndarray]


@dataclass
class Episode:
    """start: the executor was released; end: its outcome came, or the simulator was reset in it.
    Times in s; None: not (yet)."""

    about: dict[str, object]
    start: float
    end: float | None = None
    frames: list[Frame] = field(default_factory=list)

    @property
    def success(self) -> bool | None:
        """None while, or if, the episode has no outcome."""
        value = self.about.get("success")
        return None if value is None else bool(value)

    @property
    def instruction(self) -> str:
        return str(self.about.get("instruction", ""))


@dataclass(frozen=True)
class Crash:
    """A process that ended and was started again. time: s, wall clock, as ``Tick.sent``. how: in
    words."""

    process: str
    time: float
    how: str


@dataclass
class Standstill:
    """One that people are warned of. start, until: s, wall clock, as ``Tick.sent``; None: to the
    end. way_out: in words."""

    start: float
    state: State
    reason: str
    way_out: str
    until: float | None = None


@dataclass
class Recording:
    """commands: by output, messages as (sent s, wall clock; rows as nodes.outlets.Outlet takes
    them). ways: the outputs. diagnostics: newest values by status name. real_time: factors of the
    simulator, once a second. problems: for people. shared: command topics on
    which somebody else published too. crashes: oldest first. cause: what the process
    said that ended the run. redrawn: episodes in which somebody else has reset the simulator. ran:
    s from the first command to the end, None: none came. standstills: oldest first."""

    joint_names: tuple[str, ...] = ()
    ticks: list[Tick] = field(default_factory=list)
    commands: list[list[tuple[float, np.ndarray]]] = field(default_factory=list)
    chunks: list[ChunkSeen] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    diagnostics: dict[str, dict[str, str]] = field(default_factory=dict)
    real_time: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    shared: tuple[str, ...] = ()
    crashes: list[Crash] = field(default_factory=list)
    cause: str = ""
    redrawn: int = 0
    standstills: list[Standstill] = field(default_factory=list)
    ran: float | None = None
    ways: tuple[Way, ...] = ()

    def commanded(self) -> tuple[np.ndarray, list[Tick]]:
        """Commands [n, joints] and the acting tick behind each, oldest first.

        The handoff publishes a tick's command before its state; the topics are not ordered against
        each other on arrival, so it is the publication times that pair them. A tick of which a
        command was lost on the way to this listener is left out.
        """
        rows, ticks = [], []
        outlets = [way.outlet() for way in self.ways]
        columns = [[self.joint_names.index(name) for name in o.joints] for o in outlets]
        waiting = [deque(heard) for heard in self.commands]
        for tick in self.ticks:
            row = np.full(len(self.joint_names), np.nan)
            for outlet, heard, column in zip(outlets, waiting, columns, strict=True):
                while heard and heard[0][0] <= tick.sent:
                    outlet.heard(heard.popleft()[1])
                part = outlet.tick(tick.number)
                if part is not None:
                    row[column] = part
            if tick.state in ACTING and not np.isnan(row).any():
                rows.append(row)
                ticks.append(tick)
        return (np.stack(rows) if rows else np.zeros((0, len(self.joint_names)))), ticks
