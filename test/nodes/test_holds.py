# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Who may lift which hold."""

import numpy as np
import pytest

from phyai_ros import robots
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import State
from phyai_ros.nodes.holds import Holds
from phyai_ros.robots.handoff import config_of, make_handoff

STRIDE = 4
"""Ticks between two rows."""


class Silent:
    topic = "/commands"

    def publish(self, positions):
        pass

    def let_go(self, measured):
        return True


class StuckArm:
    """Chunks lead away, slowly and for long; the arm stays where it is."""

    def __init__(self):
        robot = robots.load("ur10e")
        self.handoff = make_handoff(robot, config_of(robot, 8), "replace", live=True)
        self.holds = Holds(self.handoff, Silent())
        self.period, self.now = robot.period, 100.0
        self.measured = np.zeros(len(robot.joint_names))

    def run(self, seconds):
        handoff, states = self.handoff, []
        for _ in range(round(seconds / self.period)):
            self.now += self.period
            states.append(handoff.tick(self.now, self.measured).state)
            request = handoff.request(self.now)
            if request is None:
                continue
            rows = np.tile(self.measured, (40, 1))
            rows[:, 0] = 0.5 * STRIDE * self.period * np.arange(40)
            handoff.accept(
                Chunk(
                    request_id=request.request_id,
                    epoch=request.epoch,
                    stamp=self.now,
                    joint_names=handoff.names,
                    step=STRIDE * self.period,
                    positions=rows,
                )
            )
        return states


@pytest.fixture
def arm():
    return StuckArm()


def found_off(arm):
    for _ in range(100):
        arm.run(0.2)
        if arm.handoff.off_course:
            return
    raise AssertionError("an arm that is stuck was not found")


@pytest.mark.parametrize("between", ["robot", "deactivation"])
def test_an_arm_that_was_stuck_moves_only_after_a_person_said_so(arm, between):
    found_off(arm)
    if between == "robot":
        arm.holds.block("the robot is paused", arm.measured)
        arm.run(0.2)
        arm.holds.unblock(arm.now)
    else:
        arm.handoff.hold("node deactivated")
        arm.run(0.2)
        arm.holds.activated(arm.now)
    assert set(arm.run(1.0)) == {State.HOLDING}
    assert "stopped, pushed" in arm.handoff.off_course
    arm.holds.resume(arm.now)
    assert State.EXECUTING in arm.run(0.5)


def test_a_person_may_say_so_while_the_robot_takes_no_commands(arm):
    found_off(arm)
    arm.holds.block("the robot is paused", arm.measured)
    arm.holds.resume(arm.now)
    assert set(arm.run(0.5)) == {State.HOLDING}
    arm.holds.unblock(arm.now)
    assert State.EXECUTING in arm.run(0.5)


@pytest.mark.parametrize("asked", [True, False])
def test_a_hold_of_the_robot_ends_with_it_and_that_of_a_person_does_not(arm, asked):
    arm.run(0.3)
    if asked:
        arm.holds.hold("held by service")
    arm.holds.block("the robot is paused", arm.measured)
    assert State.EXECUTING not in arm.run(0.3)[3:]
    arm.holds.unblock(arm.now)
    assert (State.EXECUTING in arm.run(0.3)) is not asked


def test_a_robot_that_takes_no_commands_is_named_also_after_a_deactivation(arm):
    arm.run(0.3)
    arm.holds.block("the robot is paused", arm.measured)
    arm.run(0.3)
    arm.handoff.hold("node deactivated")
    arm.run(0.3)
    arm.handoff.pause()
    arm.holds.activated(arm.now)
    arm.run(0.1)
    assert arm.handoff.request(arm.now) is None
    assert arm.handoff.tick(arm.now + arm.period, arm.measured).reason == "the robot is paused"


def test_an_episode_ends_in_a_hold_and_the_next_begins_with_a_reset(arm):
    arm.run(0.3)
    assert arm.holds.end_episode() == ""
    assert arm.run(1.0)[-1] is State.HOLDING
    arm.handoff.hold("node deactivated")
    arm.holds.activated(arm.now)
    assert set(arm.run(0.3)) == {State.HOLDING}, "the next episode is not drawn yet"
    assert arm.holds.begin_episode(arm.now) == ""
    assert State.EXECUTING in arm.run(0.5)


def of_policy(arm):
    arm.handoff.fail("starved", of_policy=True)


def two_masters(arm):
    arm.handoff.fail("/other sends commands too")


def unusable_then_two_masters(arm):
    of_policy(arm)
    two_masters(arm)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (of_policy, ""),
        (two_masters, "FAULT: /other sends commands too; only a person lifts it: handoff_node/res"),
        (unusable_then_two_masters, "FAULT: /other sends commands too; only a person"),
        (found_off, "only a person lifts it: handoff_node/resume"),
        (lambda arm: arm.holds.hold("held by service"), "held by service, until"),
    ],
)
def test_no_episode_lifts_what_a_person_has_to_look_at(arm, happens, says, late):
    """A simulator's next episode reset the fault of two masters again and again, and the hold of an
    arm that was stuck. late: it comes while the next episode is being drawn."""
    arm.run(0.3)
    if not late:
        happens(arm)
        standing = arm.run(0.5)[-1]
        assert standing in (State.FAULT, State.HOLDING)
        why = arm.holds.end_episode()
        assert says in why
        assert bool(why) is bool(says)
    else:
        if happens is found_off:
            found_off(arm)
        else:
            assert arm.holds.end_episode() == ""
            arm.run(0.2)
            happens(arm)
        arm.run(0.5)
    why = arm.holds.begin_episode(arm.now)
    assert says in why
    states = arm.run(0.5)
    assert (State.EXECUTING in states) is not bool(says)
    if not says:
        return
    arm.holds.reset(arm.now)
    assert State.EXECUTING in arm.run(0.5), "a person may"


class Storing(Silent):
    """A controller that goes on with what it has in store, unless told where the arm stands."""

    def __init__(self):
        self.asked = []

    def let_go(self, measured):
        self.asked.append(measured)
        return measured is not None


def test_what_could_not_be_let_go_of_is_once_it_is_known_where_the_arm_is(arm):
    """The driver was silent when it stopped: its controller had a trajectory in store, and would
    have finished it."""
    arm.holds = Holds(arm.handoff, output := Storing())
    arm.run(0.3)
    arm.holds.block("the robot is paused", None)
    assert arm.holds.owes
    arm.holds.settle(None)
    assert arm.holds.owes
    arm.holds.settle(arm.measured)
    assert not arm.holds.owes
    arm.holds.settle(arm.measured)
    assert [where is None for where in output.asked] == [True, True, False]


def test_what_was_commanded_since_is_not_let_go_of(arm):
    arm.holds = Holds(arm.handoff, output := Storing())
    arm.run(0.3)
    arm.holds.block("the robot is paused", None)
    arm.run(0.3)
    arm.holds.unblock(arm.now)
    assert State.EXECUTING in arm.run(0.5)
    arm.holds.settle(arm.measured)
    assert (len(output.asked), arm.holds.owes) == (1, False)


class MovingArm(StuckArm):
    """It follows its commands, so it is at speed."""

    def run(self, seconds):
        commands = []
        tick = self.handoff.tick

        def follow(now, measured):
            command = tick(now, measured)
            commands.append(command)
            if command.positions is not None:
                self.measured = command.positions
            return command

        self.handoff.tick = follow
        super().run(seconds)
        self.handoff.tick = tick
        return commands


@pytest.mark.parametrize("stands", [True, False])
def test_an_arm_that_may_still_move_is_braked_before_it_is_let_go(stands):
    """Who says that the robot is stopped is believed. A topic that falls silent says nothing of the
    arm: ending its commands at speed would stop it as hard as the controller can."""
    arm = MovingArm()
    before = arm.run(1.0)
    speed = (before[-1].positions[0] - before[-2].positions[0]) / arm.period
    assert speed > 0.3
    limit = arm.handoff.guard.limits.acceleration[0]
    arm.holds.block("the robot says no more how fast it runs", arm.measured, stands=stands)
    after = arm.run(1.0)
    sent = [c.positions[0] for c in after if c.positions is not None]
    assert after[-1].positions is None
    assert {c.reason for c in after} == {"the robot says no more how fast it runs"}
    if stands:
        assert sent == []
        return
    speeds = np.diff([before[-2].positions[0], before[-1].positions[0], *sent]) / arm.period
    assert speeds[-1] == pytest.approx(0.0, abs=1e-9)
    assert np.abs(np.diff(speeds)).max() <= limit * arm.period + 1e-9
    arm.holds.block("the robot is paused", arm.measured, stands=True)
    arm.holds.unblock(arm.now)
    assert State.EXECUTING in [c.state for c in arm.run(1.0)]
