# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A handoff driven tick by tick on a virtual clock, for tests: an exact arm and a policy that
answers after a given number of ticks."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.states import Command, Request

START = 1000.0


def limits(names=("a", "b"), position=3.0, velocity=2.0, acceleration=10.0):
    one = np.ones(len(names))
    return Limits(tuple(names), -position * one, position * one, velocity * one, acceleration * one)


def loose(names=("a", "b")):
    """Limits that never bite, for tests about which row is played."""
    return limits(names, 1e9, 1e9, 1e12)


@dataclass
class Rig:
    """trajectory: seconds since START -> [joints], what the policy wants at that time.
    delay: nth request -> ticks until its answer can be used, None: the request is lost."""

    handoff: Handoff
    trajectory: Callable[[float], np.ndarray]
    delay: Callable[[int], int | None]
    horizon: int = 16
    step: float = 0.0
    edit: Callable[[Chunk], Chunk] = lambda chunk: chunk
    now: float = START
    measured: np.ndarray | None = None
    commands: list[Command] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    refusals: list[ChunkRefused] = field(default_factory=list)
    on_the_way: list[tuple[int, Chunk]] = field(default_factory=list)

    @property
    def period(self):
        return self.handoff.config.period

    def run(self, ticks):
        for _ in range(ticks):
            self.one()
        return self

    def one(self):
        k = len(self.commands)
        for item in [i for i in self.on_the_way if i[0] <= k]:
            self.on_the_way.remove(item)
            self.give(item[1])
        if self.measured is None:
            self.measured = np.asarray(self.trajectory(0.0), dtype=np.float64)
        command = self.handoff.tick(self.now, self.measured)
        if command.positions is not None:
            self.measured = command.positions
        self.commands.append(command)
        request = self.handoff.request(self.now)
        if request is not None:
            self.requests.append(request)
            delay = self.delay(len(self.requests))
            if delay is not None:
                self.on_the_way.append((k + delay, self.answer(request)))
        self.now += self.period
        return command

    def answer(self, request, stamp=None):
        stamp = self.now if stamp is None else stamp
        step = self.step or self.period
        at = stamp - START + np.arange(self.horizon) * step
        rows = np.stack([np.asarray(self.trajectory(t), dtype=np.float64) for t in at])
        names = self.handoff.names
        return self.edit(Chunk(request.request_id, request.epoch, stamp, names, step, rows))

    def give(self, chunk):
        try:
            self.handoff.accept(chunk)
        except ChunkRefused as refusal:
            self.refusals.append(refusal)

    def positions(self):
        return np.stack([c.positions for c in self.commands if c.positions is not None])

    def states(self):
        return [c.state.name for c in self.commands]


def rig(
    trajectory=lambda t: np.array([0.1 * t, -0.1 * t]),
    delay=lambda n: 2,
    joint_limits=None,
    method=None,
    horizon=16,
    step=0.0,
    edit=lambda chunk: chunk,
    period=0.05,
    execution_horizon=8,
    expected_rows=None,
    tracking=None,
    **config,
):
    handoff = Handoff(
        joint_limits or loose(),
        HandoffConfig(period, execution_horizon, expected_rows, **config),
        method,
        tracking=tracking,
    )
    return Rig(handoff, trajectory, delay, horizon, step, edit)
