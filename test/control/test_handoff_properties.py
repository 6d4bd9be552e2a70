# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""For any sequence of chunks, delays, drops, epochs and clock steps: commands stay within limits,
ticks never go back, an old epoch never moves the arm, and a NaN never leaves."""

import dataclasses

import numpy as np
from handoff_rig import START, limits
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.chunk import Chunk, ChunkRefused
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.methods import GUIDED, METHODS, make
from phyai_ros.control.states import State
from phyai_ros.control.tracking import TrackingWatch

PERIOD = 0.05
MOVING = (State.EXECUTING, State.RAMPING)

value = st.one_of(st.floats(-4, 4), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308]))
mostly_good = st.one_of(*[st.floats(-2.9, 2.9)] * 9, value)


@st.composite
def chunks(draw):
    rows = draw(st.integers(1, 12))
    start = draw(st.tuples(mostly_good, mostly_good))
    slope = draw(st.tuples(st.floats(-1, 1), st.floats(-1, 1)))
    return np.array(start) + np.outer(np.arange(rows), slope)


event = st.one_of(
    st.tuples(st.just("tick"), st.integers(1, 12)),
    st.tuples(st.just("chunk"), chunks(), st.integers(0, 5), st.floats(-0.2, 1.5)),
    st.tuples(st.just("chunk"), chunks(), st.integers(0, 1), st.floats(0.0, 0.3)),
    st.tuples(st.just("drive"), st.floats(-0.07, 0.07), st.integers(1, 10)),
    st.tuples(st.just("drive"), st.floats(-0.07, 0.07), st.integers(1, 10)),
    st.tuples(st.just("replay"), st.integers(0, 8)),
    st.tuples(st.just("clock"), st.sampled_from([-1000.0, -0.5, -0.06, -0.02, 0.02, 0.2, 3.0])),
    st.tuples(st.just("hold")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("reset")),
    st.tuples(st.just("instruction"), st.sampled_from(["red", "blue"])),
    st.tuples(st.just("blind"), st.booleans()),
    st.tuples(st.just("push"), st.floats(-2.9, 2.9)),
    st.tuples(st.just("stuck"), st.integers(1, 40)),
    st.tuples(st.just("measure_nan")),
)


class Machine:
    def __init__(self, method, stride):
        self.limits = limits(position=3.0, velocity=1.5, acceleration=6.0)
        self.handoff = Handoff(
            self.limits,
            HandoffConfig(PERIOD, 4, fault_after=1.0, discrete=("b",)),
            make(method),
            tracking=TrackingWatch(("a", "b"), (0.05, np.inf), 2, 2, ("rad", "m")),
        )
        self.step = PERIOD * stride
        self.now = START
        self.measured = np.zeros(2)
        self.blind = False
        self.requests = []
        self.given = []
        self.epoch_of = {}
        self.position = None
        self.speed = np.zeros(2)
        self.back = np.full(2, np.nan)
        self.last_tick = -1

    def tick(self, measured=None):
        if measured is None and not self.blind:
            measured = self.measured
        rebases = self.handoff.counters.rebases
        command = self.handoff.tick(self.now, measured)
        if self.handoff.guard._back is not None:
            self.back = np.array(self.handoff.guard._back)
        if command.state in MOVING or command.positions is None:
            self.back = np.full(2, np.nan)
        self.check(command, self.handoff.counters.rebases > rebases)
        request = self.handoff.request(self.now)
        if request is not None:
            assert request.leftover.shape[1] == 2
            assert np.isfinite(request.leftover).all()
            assert 0 <= request.committed <= len(request.leftover)
            self.requests.append(request)
            self.epoch_of[request.request_id] = request.epoch
        self.now += PERIOD

    def check(self, command, rebased):
        assert command.tick > self.last_tick or (
            command.repeated and command.tick == self.last_tick
        )
        self.last_tick = command.tick
        if command.repeated:
            return
        assert command.epoch == self.handoff.epoch
        if command.state in MOVING:
            assert self.epoch_of[command.request_id] == self.handoff.epoch
            assert command.positions is not None
        if command.positions is None:
            assert command.state in (State.WAITING, State.FAULT, State.HOLDING)
            self.position = None
            return
        lim = self.limits
        assert np.isfinite(command.positions).all()
        assert (command.positions <= lim.upper + 1e-9).all()
        assert (command.positions >= lim.lower - 1e-9).all()
        if self.position is None or rebased:
            self.position, self.speed = (
                np.where(
                    [True, self.position is None],
                    self.measured,
                    self.measured if self.position is None else self.position,
                ),
                np.zeros(2),
            )
            if rebased:
                near = np.abs(command.positions - self.position) <= 0.1
                self.position = np.where(near, self.position, command.positions)
        speed = (command.positions - self.position) / PERIOD
        assert (np.abs(speed) <= lim.velocity + 1e-6).all()
        assert (np.abs(speed - self.speed) / PERIOD <= lim.acceleration + 1e-5).all()
        if command.state not in MOVING:
            slower = np.abs(speed) <= np.abs(self.speed) + 1e-9
            left = self.back - self.position
            back = (left * speed > 0.0) & (np.abs(speed) * PERIOD <= np.abs(left) + 1e-9)
            assert (slower | back).all(), "only ever slower, or back to where the arm is"
        self.position, self.speed = command.positions, speed
        self.measured = command.positions.copy()

    def apply(self, event):
        kind, *args = event
        if kind == "tick":
            for _ in range(args[0]):
                self.tick()
        elif kind == "chunk":
            rows, back, age = args
            if len(self.requests) > back:
                request = self.requests[-1 - back]
                self.give(
                    Chunk(
                        request.request_id,
                        request.epoch,
                        self.now - age,
                        ("a", "b"),
                        self.step,
                        rows,
                    )
                )
        elif kind == "drive":
            self.drive(*args)
        elif kind == "replay" and len(self.given) > args[0]:
            self.give(dataclasses.replace(self.given[-1 - args[0]], stamp=self.now))
        elif kind == "clock":
            self.now = max(self.now + args[0], 1.0)
        elif kind == "hold":
            self.handoff.hold()
        elif kind == "resume":
            self.handoff.resume(self.now)
        elif kind == "reset":
            self.handoff.reset(self.now)
        elif kind == "instruction":
            self.handoff.set_instruction(args[0], self.now)
        elif kind == "blind":
            self.blind = args[0]
        elif kind == "push" and self.handoff.state not in MOVING:
            self.measured = np.array([args[0], self.measured[1]])
        elif kind == "stuck":
            there = self.measured
            for _ in range(args[0]):
                self.tick(there)
        elif kind == "measure_nan":
            self.tick(np.array([np.nan, 0.0]))

    def drive(self, slope, ticks):
        """What a sound policy does: go on from where the arm is, answer after one tick."""
        rows = self.measured + np.outer(np.arange(12), [slope, -slope])
        if self.requests:
            request = self.requests[-1]
            stamp = self.now - PERIOD
            names = self.limits.names
            self.give(Chunk(request.request_id, request.epoch, stamp, names, self.step, rows))
        self.apply(("tick", ticks))

    def give(self, chunk):
        self.given.append(chunk)
        bad = not np.isfinite(chunk.positions).all()
        stale = chunk.epoch != self.handoff.epoch
        try:
            self.handoff.accept(chunk)
        except ChunkRefused:
            return
        assert not bad, "a chunk with a NaN was accepted"
        assert not stale, "a chunk of an old epoch was accepted"


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted({**METHODS, **GUIDED})), st.integers(1, 2), st.lists(event, max_size=60)
)
def test_anything_may_happen(method, stride, events):
    machine = Machine(method, stride)
    machine.tick()
    for item in events:
        machine.apply(item)
    machine.apply(("tick", 5))


def test_the_events_do_reach_every_state():
    """The property above is worth something only if its events move the arm at all."""
    machine = Machine("replace", 1)
    seen = set()
    rows = np.linspace(0, 1, 12)[:, None] * np.array([0.5, 0.5])
    for k in range(60):
        machine.apply(("tick", 2))
        seen.add(machine.handoff.state)
        if k < 20:
            machine.apply(("chunk", rows, 0, 0.05))
    assert {State.WAITING, State.EXECUTING, State.HOLDING, State.FAULT} <= seen


def test_the_events_do_reach_an_arm_that_does_not_follow():
    machine = Machine("replace", 1)
    for _ in range(4):
        machine.apply(("drive", 0.07, 4))
    machine.apply(("drive", 0.07, 0))
    machine.apply(("stuck", 8))
    assert machine.handoff.tracking.count == 1
    assert machine.handoff.state is State.HOLDING


def test_the_events_do_reach_an_arm_that_is_stopped_as_its_plan_ends():
    machine = Machine("replace", 1)
    for _ in range(4):
        machine.apply(("drive", 0.07, 4))
    machine.apply(("drive", 0.07, 0))
    machine.apply(("tick", 2))
    machine.apply(("hold",))
    machine.apply(("tick", 1))
    there = machine.measured - np.array([0.12, 0.0])
    machine.tick(there)
    for _ in range(40):
        machine.tick(there - np.array([0.12, 0.0]))
    assert machine.handoff.tracking.count == 0
    assert "stopped short of its command" in machine.handoff.tick(machine.now, None).reason
