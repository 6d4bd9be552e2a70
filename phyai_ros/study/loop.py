# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One episode on a virtual clock: the real control loop, handoff, guard and simulator, one thread.

Nothing waits and nothing looks at the wall clock: an answer's duration is a number that is drawn,
so the same seed gives the same episode on any machine under any load.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phyai_ros.control import methods
from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.frame import NotReady
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.states import Counters, Request
from phyai_ros.nodes.control_loop import ControlLoop, TickReport
from phyai_ros.robots import guards
from phyai_ros.robots.robot import Robot
from phyai_ros.sim.cell import Cell
from phyai_ros.sim.episodes import Episodes, Outcome
from phyai_ros.study.latency import Latency
from phyai_ros.study.players import Player

START = 1000.0
"""Seconds on the virtual clock at the first tick: a stamp of zero means none."""
_EPS = 1e-9


@dataclass(frozen=True)
class Condition:
    """What is varied. horizon: rows executed of a chunk before the next takes over."""

    handoff: str
    horizon: int
    latency: Latency

    @property
    def key(self) -> str:
        return f"{self.handoff} | {self.horizon} | {self.latency.label}"


@dataclass
class Trace:
    """All that happened in an episode. reports: one a tick. observed: request -> seconds, stamp of
    the observation that answered it. answers: inferences begun."""

    reports: list[TickReport] = field(default_factory=list)
    observed: dict[int, float] = field(default_factory=dict)
    answers: int = 0
    requests: int = 0
    refusals: list[str] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    limited: int = 0
    outcome: Outcome | None = None


class Answers:
    """The policy's thread as a number: one answer at a time, the newest request waits."""

    def __init__(
        self, player: Player, latency: Latency, rng: np.random.Generator, trace: Trace
    ) -> None:
        self._player, self._latency, self._rng, self._trace = player, latency, rng, trace
        self._waiting: Request | None = None
        self._free = -np.inf
        self._coming: list[tuple[float, Chunk]] = []

    def submit(self, request: Request) -> None:
        self._waiting = request
        self._trace.requests += 1

    def work(self, tick: float, until: float) -> None:
        """Begin what can begin in [tick, until), on the newest pictures at ``tick``."""
        if self._waiting is None or self._free >= until - _EPS:
            return
        start = max(tick, self._free)
        try:
            chunk = self._player.answer(self._waiting, start)
        except NotReady:
            return  # the pictures of the next tick
        self._waiting = None
        self._trace.answers += 1
        self._trace.observed[chunk.request_id] = chunk.stamp
        self._free = start + self._latency.seconds(self._trace.answers, self._rng)
        self._coming.append((self._free, chunk))

    def ready(self, now: float) -> list[tuple[float, Chunk]]:
        """What has come by ``now``: (seconds, chunk), oldest first."""
        come = [item for item in self._coming if item[0] <= now + _EPS]
        self._coming = [item for item in self._coming if item[0] > now + _EPS]
        return come


class Sink:
    """Takes a control tick's results into the simulator and the trace."""

    def __init__(self, episodes: Episodes, order: list[int], trace: Trace) -> None:
        self._episodes, self._order, self._trace = episodes, order, trace
        self.answers: Answers | None = None

    def command(self, positions: np.ndarray) -> None:
        refusal = self._episodes.command(positions[self._order])
        if refusal is not None:
            self._trace.refusals.append(refusal)

    def request(self, request: Request) -> None:
        assert self.answers is not None
        self.answers.submit(request)

    def report(self, report: TickReport) -> None:
        self._trace.reports.append(report)

    def refused(self, refusal: ChunkRefused) -> None:
        self._trace.refusals.append(str(refusal))


def run_episode(
    world: Cell,
    robot: Robot,
    player: Player,
    condition: Condition,
    seed: int,
    limit: float,
    image_age: float = 0.0,
) -> Trace:
    """limit: seconds of the episode after the first command. image_age: seconds by which pictures
    are taken before the tick that can first see them, less than a control period."""
    trace = Trace()
    episodes = Episodes(world, seed, limit)
    limits = robot.limits()
    period = robot.period
    config = HandoffConfig(period, condition.horizon, discrete=robot.discrete_joints)
    handoff = Handoff(
        limits,
        config,
        methods.make(condition.handoff),
        workspace=guards.workspace(robot),
        stall=guards.stall_detector(robot, period),
        tracking=guards.tracking_watch(robot, period),
    )
    names = limits.names
    sink = Sink(episodes, [names.index(n) for n in world.joint_names], trace)
    rng = np.random.default_rng([seed, 1])
    sink.answers = Answers(player, condition.latency, rng, trace)
    clock = START

    def measured() -> np.ndarray:
        joints = world.joints()
        return np.array([joints[n][0] for n in names])

    loop = ControlLoop(handoff, sink, lambda: clock, measured)
    player.begin(world, seed, condition.handoff)
    loop.post(lambda now: handoff.set_instruction(world.instruction, now))
    player.look(clock)
    player.expose(clock)
    tick = 0
    # An arm that gets no chunk never starts: its time counts too.
    while trace.outcome is None and tick * period < 2.0 * limit:
        clock = START + tick * period
        after = START + (tick + 1) * period
        for published, chunk in sink.answers.ready(clock):
            loop.post_chunk(chunk, published)
        loop.tick()
        sink.answers.work(clock, after)
        world.step(period - image_age)
        player.look(after - image_age)
        player.expose(after - image_age)
        if image_age:
            world.step(image_age)
            player.look(after)
        trace.outcome = episodes.update()
        tick += 1
    trace.counters, trace.limited = handoff.counters, handoff.guard.limited_ticks
    return trace
