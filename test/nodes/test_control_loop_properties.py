# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whatever people, robot, policy and clocks do around the control loop: it never fails, and what
goes out is one stream within the limits until the arm was let go."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control.chunk import Chunk
from phyai_ros.control.guard import Limits
from phyai_ros.control.handoff import Handoff, HandoffConfig
from phyai_ros.control.methods import NAMES, make
from phyai_ros.control.states import State
from phyai_ros.control.tracking import TrackingWatch
from phyai_ros.msg import InferenceRequest
from phyai_ros.nodes import convert
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.holds import Holds

PERIOD, SPEED, ACCELERATION = 0.05, 1.5, 6.0
JOINTS = ("a", "b")  # b is a gripper


class Cell:
    """The sink of the loop, an output, the arm and the policy; ``chance`` decides everything."""

    def __init__(self, chance: Random, method: str) -> None:
        self.chance = chance
        limits = Limits(JOINTS, [-3, -3], [3, 3], [SPEED] * 2, [ACCELERATION] * 2)
        config = HandoffConfig(
            PERIOD, chance.choice([None, 4, 8]), fault_after=2.0, discrete=("b",)
        )
        tracking = TrackingWatch(JOINTS, (0.2, np.inf), 10, 5, ("rad", "m"))
        self.handoff = Handoff(limits, config, make(method), tracking=tracking)
        self.now, self.steady, self.speed = chance.choice([0.0, 5.0, 1.795e9]), 77.0, 1.0
        self.measured, self.blind = np.zeros(2), False
        self.loop = ControlLoop(
            self.handoff,
            self,
            lambda: self.now,
            lambda: None if self.blind else self.measured,
            lambda: self.speed,
            lambda: self.steady,
        )
        self.holds = Holds(self.handoff, self)
        self.newest = None
        self.forget()
        self.seen: set[State] = set()

    # -- what the loop does ------------------------------------------------------------------

    def command(self, positions):
        limits = self.handoff.guard.limits
        assert (positions >= limits.lower - 1e-9).all()
        assert (positions <= limits.upper + 1e-9).all()
        if self.last is not None:
            velocity = (positions - self.last) / PERIOD
            assert (np.abs(velocity) <= SPEED + 1e-6).all()
            if self.velocity is not None:
                # Slowed down while nothing was sent, it may have any speed up to the one it had.
                least = np.minimum(self.velocity, 0.0) if self.stood else self.velocity
                most = np.maximum(self.velocity, 0.0) if self.stood else self.velocity
                assert (velocity >= least - ACCELERATION * PERIOD - 1e-6).all()
                assert (velocity <= most + ACCELERATION * PERIOD + 1e-6).all()
            self.velocity = velocity
        self.last, self.stood = positions, False
        self.measured = positions.copy()

    def request(self, request):
        self.newest = convert.request_from_message(
            convert.fill_request(InferenceRequest(), request)
        )

    def report(self, report):
        command = report.command
        self.seen.add(command.state)
        if command.positions is None:
            speed = 0.0 if self.velocity is None or self.stood else np.abs(self.velocity).max()
            assert speed <= ACCELERATION * PERIOD + 1e-6, "from there it stands on the next tick"
            self.forget()
        if command.state in (State.EXECUTING, State.RAMPING):
            assert command.epoch == self.handoff.epoch
            assert not self.holds.blocked

    def refused(self, refusal):
        pass

    def let_go(self, measured):
        self.forget()

    def forget(self):
        self.last, self.velocity, self.stood = None, None, False

    # -- what happens to it ------------------------------------------------------------------

    def tick(self, times=1):
        for _ in range(times):
            self.loop.tick()
            self.pass_by(PERIOD)

    def pass_by(self, seconds):
        self.now, self.steady = self.now + seconds, self.steady + seconds

    def policy(self):
        """A sound one, whatever it answers late."""
        for _ in range(self.chance.randint(1, 5)):
            if self.newest is not None:
                slope = self.chance.uniform(-0.07, 0.07)
                rows = self.measured + np.outer(np.arange(self.chance.choice([8, 16])), [slope] * 2)
                step = PERIOD * self.chance.choice([1, 1, 2])
                self.answer(self.now - self.chance.uniform(0.0, 0.3), step, rows)
            self.tick(self.chance.randint(1, 6))

    def nonsense(self):
        if self.newest is not None:
            stamp = self.chance.choice([0.0, 1.0, self.now + 100.0, 2e9])
            rows = np.full((5, 2), self.chance.choice([0.0, np.nan, 99.0]))
            self.answer(stamp, self.chance.choice([PERIOD, 0.07, 0.0]), rows)

    def answer(self, stamp, step, rows):
        request = self.newest
        stamp = max(stamp, 0.0)
        chunk = Chunk(request.request_id, request.epoch, stamp, JOINTS, step, rows)
        self.loop.post_chunk(chunk, self.now)

    def people(self):
        words = {
            "hold": lambda now: self.holds.hold("held by service"),
            "resume": self.holds.resume,
            "reset": self.holds.reset,
            "fault": lambda now: self.handoff.fail("another master commands the arm"),
            "red": lambda now: self.handoff.set_instruction("red", now),
            "blue": lambda now: self.handoff.set_instruction("blue", now),
        }
        self.loop.post(words[self.chance.choice([*words, "resume", "reset", "reset"])])

    def robot(self):
        stands, measured = self.chance.random() < 0.5, None if self.blind else self.measured
        self.loop.post(lambda now: self.holds.block("not ready", measured, stands=stands))
        self.tick(self.chance.randint(1, 8))
        self.loop.post(self.holds.unblock)

    def slower(self):
        self.speed = self.chance.choice([1.0, 1.0, 0.5, 0.3, 0.1, 0.02])

    def clock(self):
        steps = [-1000.0, -0.5, -0.2, -0.06, -0.02, 0.02, 0.2, 0.4, 3.0, 1e5]
        self.now = max(self.now + self.chance.choice(steps), 0.0)

    def stall(self):
        seconds = self.chance.choice([0.05, 0.1, 0.3, 0.9, 2.0])
        self.pass_by(seconds)
        if seconds > self.handoff.config.clock_jump:
            self.handoff.let_go()
            self.forget()
        else:
            self.handoff.stood_by(int(seconds / PERIOD))
            self.stood = True

    def sensors(self):
        self.blind = self.chance.random() < 0.3
        if self.handoff.guard.last is None:
            self.measured = np.array([self.chance.uniform(-2.9, 2.9), self.measured[1]])

    def deactivation(self):
        self.loop.post(lambda now: self.handoff.hold("node deactivated"))
        self.tick(self.chance.randint(0, 12))
        self.handoff.pause()
        self.forget()
        self.pass_by(self.chance.choice([0.2, 50.0]))
        self.loop.post(self.holds.activated)

    stood = False
    EVENTS = (*[policy] * 8, *[people] * 3, robot, slower, clock, stall, sensors, deactivation)
    EVENTS += (nonsense,)


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(NAMES))
def test_whatever_happens_it_is_one_stream_within_the_limits(chance, method):
    cell = Cell(chance, method)
    cell.tick()
    for _ in range(40):
        chance.choice(Cell.EVENTS)(cell)
    cell.tick(5)


def test_what_happens_there_does_move_the_arm():
    seen: set[State] = set()
    for seed in range(10):
        cell = Cell(Random(seed), "replace")
        cell.tick()
        for _ in range(40):
            cell.chance.choice(Cell.EVENTS)(cell)
        seen |= cell.seen
    assert seen >= {State.EXECUTING, State.HOLDING, State.STARVED, State.FAULT, State.WAITING}
