# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The tracking watch: no lag trips it, an arm that does not go where it is sent always does, and
the handoff then holds within its limits."""

import numpy as np
import pytest
from handoff_rig import limits, rig
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.control.states import State
from phyai_ros.control.tracking import TrackingWatch

LAG, TICKS, FAR = 10, 5, 0.2
NAMES = ("a", "b")


def watch(tolerance=(FAR, FAR)):
    return TrackingWatch(NAMES, tolerance, LAG, TICKS, ("rad", "rad"))


speeds = st.lists(st.tuples(st.floats(-0.15, 0.15), st.floats(-0.15, 0.15)), max_size=60)


@given(speeds, st.data())
def test_an_arm_that_follows_late_is_never_off(steps, data):
    """Any commands; measured somewhere between two of those of the last LAG ticks, any of them at
    any tick, and beside by less than the tolerance."""
    commands = np.cumsum([(0.0, 0.0), *steps], axis=0)
    watched = watch()
    for k, command in enumerate(commands):
        watched.sent(command)
        ages = data.draw(st.tuples(*[st.integers(0, min(k, LAG - 1))] * 2))
        share = data.draw(st.floats(0, 1))
        beside = data.draw(st.floats(-0.99 * FAR, 0.99 * FAR))
        between = (1 - share) * commands[k - ages[0]] + share * commands[k - ages[1]]
        assert watched.look(between + beside) == ""
    assert watched.count == 0


@given(st.floats(0.01, 0.15), st.sampled_from([-1, 1]), st.integers(0, 20), st.booleans())
def test_an_arm_that_stops_is_off_once_its_lag_and_the_tolerance_are_over(speed, way, at, nan):
    watched = watch()
    found, stopped, limit = None, None, FAR
    for k in range(1000):
        command = np.array([way * speed * k, 0.0])
        watched.sent(command)
        if k <= at:
            stopped = command
        measured = stopped if not nan or k <= at else np.array([np.nan, 0.0])
        if watched.look(measured):
            found = k
            break
    assert found is not None
    if nan:
        assert found == at + TICKS
        return
    # All commands of the last LAG ticks have to be more than the tolerance away, TICKS times.
    due = at + int(limit / speed) + 1 + (LAG - 1) + (TICKS - 1)
    assert due - 1 <= found <= due + 1


def test_what_is_not_watched_is_never_off_and_no_measurement_says_nothing():
    watched = watch((FAR, np.inf))
    for _ in range(50):
        watched.sent(np.zeros(2))
        assert watched.look(np.array([0.0, 9.0])) == ""
        assert watched.look(None) == ""
    for _ in range(TICKS - 1):
        assert watched.look(np.array([0.3, 0.0])) == ""
    assert "a is 0.3 rad from all commands" in watched.look(np.array([0.3, np.nan]))
    assert watched.error == pytest.approx(0.3 / FAR)


@pytest.mark.parametrize(
    ("tolerance", "lag", "ticks"), [((0.0, 1.0), 3, 3), ((1.0,), 3, 3), ((1.0, 1.0), 0, 3)]
)
def test_settings_that_make_no_sense_are_refused(tolerance, lag, ticks):
    with pytest.raises(ValueError, match="tracking: expected"):
        TrackingWatch(NAMES, tolerance, lag, ticks, ("rad", "rad"))


def moving(tracking, **config):
    return rig(
        lambda t: np.array([0.5 * np.sin(t), 0.4 * np.sin(1.3 * t)]),
        joint_limits=limits(velocity=1.0, acceleration=4.0),
        tracking=tracking,
        **config,
    )


def within(positions, period, velocity=1.0, acceleration=4.0):
    speed = np.diff(positions, axis=0) / period
    slew = np.diff(speed, axis=0) / period
    return np.abs(speed).max() <= velocity + 1e-9 and np.abs(slew).max() <= acceleration + 1e-6


@given(st.integers(20, 60), st.sampled_from([0, 1]))
def test_the_handoff_holds_an_arm_that_is_stuck_and_goes_on_from_there(at, joint):
    run = moving(watch()).run(at)
    assert run.commands[-1].state is State.EXECUTING
    stuck = float(run.measured[joint])
    for _ in range(200):
        run.measured = np.array(run.measured)
        run.measured[joint] = stuck
        if run.one().state is State.HOLDING:
            break
    hold = run.commands[-1]
    assert hold.state is State.HOLDING
    assert f"{NAMES[joint]} is" in hold.reason
    assert run.handoff.tracking.count == 1
    for _ in range(100):  # taken back to where it is, and held there: it is pressed no longer
        run.measured = np.array(run.measured)
        run.measured[joint] = stuck
        command = run.one()
    commanded = [c.positions for c in run.commands if c.positions is not None]
    assert within(np.stack(commanded), run.period)
    assert command.state is State.HOLDING
    assert command.positions[joint] == pytest.approx(stuck, abs=1e-6)
    assert run.handoff.guard.standing
    assert run.handoff.counters.rebases == 0
    before = len(run.commands)
    run.handoff.resume(run.now)
    run.run(60)
    after = [c for c in run.commands[before:] if c.positions is not None]
    assert after[-1].state is State.EXECUTING
    first = after[0].positions
    assert np.abs(first - run_measured(run, before, joint, stuck)).max() <= 1.0 * run.period


class Pressed:
    """Three joints of an arm, and a gripper that closes on something; ``b`` is blocked."""

    def __init__(self):
        names = ("a", "b", "c", "grip")
        tolerance = (FAR, FAR, FAR, np.inf)
        self.run = rig(
            lambda t: np.array([0.3 * t, 0.5 * t, 0.0, -0.2 * t]),
            joint_limits=limits(names, 50.0, 1.0, 4.0),
            tracking=TrackingWatch(names, tolerance, LAG, TICKS, ("rad", "rad", "rad", "m")),
            discrete=("grip",),
        )
        self.where = self.stuck

    def stuck(self, command):
        return np.array(
            [command[0], min(command[1], 0.5), command[2] - 0.05, max(command[3], -0.1)]
        )

    def tick(self):
        command = self.run.one()
        if command.positions is not None:
            self.run.measured = self.where(command.positions)
        return command

    def until_held(self):
        for _ in range(200):
            if (command := self.tick()).state is State.HOLDING:
                return command
        raise AssertionError("an arm that is stuck was not found")


def test_a_blocked_arm_is_pressed_no_longer_and_its_gripper_keeps_its_grip():
    """Held at its last command it was pressed on with all the force it has, and leapt once it was
    free. A joint that sags under its load, and one that follows, do not move to where they are."""
    arm = Pressed()
    held = arm.until_held().positions
    grip = held[3]
    assert held[1] > 0.7
    commands = [arm.tick().positions for _ in range(60)]
    assert within(np.stack([held, *commands])[:, 1:2], arm.run.period)
    a, b, c, grip_after = commands[-1]
    assert b == pytest.approx(0.5, abs=1e-6)
    assert c == pytest.approx(0.0, abs=1e-6)
    assert a >= held[0]  # braked, ahead
    assert grip_after == pytest.approx(grip, abs=0.03)
    assert grip_after < -0.1  # it squeezes


@pytest.mark.parametrize("end", ["hold", "starved"])
def test_so_is_one_that_was_stopped_just_before_its_plan_ended(end):
    """It was let go of after a second, and a controller that keeps the last command pressed on."""
    arm = Pressed()
    while (command := arm.tick().positions) is None or command[1] < 0.75:
        pass
    assert arm.run.handoff.tracking.count == 0
    if end == "hold":
        arm.run.handoff.hold("held by a person")
    else:
        arm.run.handoff.set_instruction("another", arm.run.now)
    arm.run.delay = lambda n: None
    commands = [arm.tick() for _ in range(60)]
    positions = np.stack([c.positions for c in commands])
    assert within(positions[:, 1:2], arm.run.period)
    assert positions[0, 1] > 0.75
    assert positions[-1, 1] == pytest.approx(0.5, abs=1e-6)
    assert {c.state for c in commands} == {State.HOLDING}
    assert "b was stopped short of its command, and is held where it is" in commands[-1].reason
    arm.where = lambda command: np.array([*command[:1], 0.0, *command[2:]])  # by hand, then
    assert [arm.tick().positions for _ in range(2)][-1] is None
    assert arm.run.handoff.counters.rebases == 1


def test_an_arm_that_sags_is_not_followed_down():
    """Each time that it stood it would have been commanded lower."""
    arm = Pressed()
    arm.where = lambda command: command - np.array([0.0, 0.0, 0.15, 0.0])
    for _ in range(40):
        arm.tick()
    arm.run.handoff.hold("held by a person")
    sent = [c.positions[2] for _ in range(60) if (c := arm.tick()).positions is not None]
    assert sent == pytest.approx([0.0] * len(sent), abs=1e-9)


def test_one_that_is_measured_elsewhere_all_at_once_as_it_stops_is_let_go_of():
    arm = Pressed()
    arm.where = lambda command: command
    arm.run.run(40)
    arm.run.handoff.hold("held by a person")
    arm.where = lambda command: command - np.array([0.0, 0.9, 0.0, 0.0])
    sent = [c.positions[1] for _ in range(60) if (c := arm.tick()).positions is not None]
    assert (np.diff(sent) >= 0.0).all()
    assert arm.run.handoff.guard.last is None


def test_no_joint_is_taken_to_where_a_measurement_leaps():
    """An encoder that slips, another arm's driver: the arm may never have been there."""
    arm = Pressed()
    arm.where = lambda command: command
    arm.run.run(40)
    arm.where = lambda command: command - np.array([0.0, 0.9, 0.0, 0.0])
    held = arm.until_held().positions
    commands = np.stack([held, *[c for _ in range(15) if (c := arm.tick().positions) is not None]])
    assert len(commands) > 10
    assert (np.diff(commands[:, 1]) >= 0.0).all()


def test_nor_to_one_that_cannot_be():
    arm = Pressed()
    arm.where = lambda command: command
    arm.run.run(40)
    arm.where = lambda command: np.full(4, 1e6)
    said = arm.until_held()
    assert "is its unit right?" in said.reason
    held = said.positions
    assert (np.diff([held[1], *[arm.tick().positions[1] for _ in range(10)]]) >= 0.0).all()


def test_an_arm_that_was_let_go_of_is_not_judged_by_what_it_was_told_before():
    """The process stood still at speed: nothing is commanded then, so nothing is taken back."""
    arm = Pressed()
    for _ in range(200):
        arm.tick()
        if arm.run.handoff.tracking.error > 1.0:
            break
    for _ in range(TICKS + 1):
        arm.run.handoff.let_go()
        arm.run.measured = np.array([0.0, 0.5, 0.0, 0.0])
        arm.run.one()


def run_measured(run, tick, joint, stuck):
    """Where the arm stood when it was resumed: its last command, the stuck joint where it was."""
    last = next(c.positions for c in reversed(run.commands[:tick]) if c.positions is not None)
    return np.where(np.arange(2) == joint, stuck, last)


def test_an_exact_arm_is_never_held():
    run = moving(watch()).run(400)
    assert run.handoff.tracking.count == 0
    assert run.handoff.tracking.error <= 1.0


@given(st.integers(1, 18), st.integers(20, 80), st.booleans())
def test_a_robot_that_plays_on_is_met_where_it_is(missed, at, held):
    """joint_trajectory: while ticks are missed the controller goes on with what it was sent; the
    commands before, what it played meanwhile and the commands after are one stream within limits.
    A pause shorter than the step of the clock that begins a new epoch. held: somebody holds the arm
    meanwhile."""
    run = moving(watch(), plays_on=True).run(at)
    played = run.handoff.ahead()
    run.now += missed * run.period
    run.measured = played[min(missed, len(played)) - 1]
    before = run.positions()
    if held:
        run.handoff.hold("held by a person")
    run.run(3)
    meanwhile = [played[min(k, len(played) - 1)] for k in range(missed)]
    stream = np.vstack([before, *meanwhile, *(c.positions for c in run.commands[-3:])])
    assert within(stream, run.period)
    assert run.handoff.tracking.count == 0


@given(st.integers(1, 18), st.integers(20, 80), st.booleans())
def test_a_robot_that_stands_meanwhile_goes_on_from_its_last_command(missed, at, held):
    """A forward controller holds the last command while ticks are missed, so the arm slows down,
    and stands in the end: it is not kicked back to the speed that it had before."""
    run = moving(watch()).run(at)
    before = run.positions()
    run.now += missed * run.period
    run.handoff.stood_by(missed)
    if held:
        run.handoff.hold("held by a person")
    run.run(3)
    stream = np.vstack([before[-1], *(c.positions for c in run.commands[-3:])])
    speed = np.diff(stream, axis=0) / run.period
    slowed = np.abs(before[-1] - before[-2]) / run.period - missed * 4.0 * run.period
    assert (np.abs(speed[0]) <= np.maximum(slowed, 0.0) + 4.0 * run.period + 1e-9).all()
    assert within(stream, run.period)
