# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Public reports of robots that waited, jumped, went back or turned wild: one test each, on the
smallest input that shows the fault."""

import dataclasses

import numpy as np
import pytest
from handoff_rig import limits, loose, rig

from phyai_ros.control.chunk import Drop
from phyai_ros.control.delay import DelayEstimator
from phyai_ros.control.methods import Synchronous
from phyai_ros.control.states import State


def line(t):
    return np.array([t, -t])


def test_openpi_393_no_gap_while_the_next_chunk_is_inferred():
    """openpi#393: jerky, waits; 86 ms inference against a 20 ms tick. -> Overlap: after the first
    chunk every tick has a fresh action."""
    run = rig(line, period=0.02, delay=lambda n: 5, horizon=50, execution_horizon=25).run(500)
    first = run.states().index("EXECUTING")
    assert set(run.states()[first:]) == {"EXECUTING"}
    steps = np.diff([c.positions[0] for c in run.commands[first + 30 :]])
    np.testing.assert_allclose(steps, 0.02, atol=1e-9)


def test_openpi_393_the_synchronous_baseline_does_wait():
    """The same, stop and think: the fault that overlapping removes must be visible here."""
    run = rig(
        line, period=0.02, delay=lambda n: 5, horizon=50, execution_horizon=25,
        method=Synchronous(),
    ).run(500)  # fmt: skip
    share = run.states().count("HOLDING") / 500
    assert share > 0.1
    assert run.handoff.counters.starved_ticks == 0


def test_groot_285_seam_of_005_rad_is_bounded():
    """Isaac-GR00T#285: stutters between chunks. -> A seam of 0.05 rad is spread by the limits."""
    bound = limits(velocity=0.5, acceleration=5.0)
    offsets = iter([0.0, 0.05] * 100)

    def offset(c):
        return dataclasses.replace(c, positions=c.positions + next(offsets))

    run = rig(lambda t: np.zeros(2), joint_limits=bound, edit=offset).run(200)
    steps = np.abs(np.diff(run.positions(), axis=0))
    assert steps.max() <= 0.5 * 0.05 + 1e-9
    assert run.handoff.guard.limited_ticks > 0


def test_groot_272_a_new_chunk_never_moves_the_arm_back():
    """Isaac-GR00T#272: the arm moves back a few steps on each new chunk, because it is played from
    index 0 although its observation is old. -> Rising ramp, 5 ticks late: commands never fall."""
    run = rig(line, delay=lambda n: 5).run(300)
    assert (np.diff(run.positions()[:, 0]) >= -1e-9).all()
    assert run.handoff.counters.accepted_chunks > 20


def test_lerobot_4223_first_chunk_skips_nothing():
    """lerobot#4223: the first chunk skips 21 of 30 actions on warm-up latency: a violent jump. ->
    Nothing was consumed while the arm stood, so it starts at row 0."""
    run = rig(
        line, period=1 / 30, delay=lambda n: 21 if n == 1 else 9, horizon=30, execution_horizon=10
    ).run(60)
    first = next(c for c in run.commands if c.first_use)
    assert first.tick == 21
    assert first.index == 0
    second = next(c for c in run.commands if c.first_use and c.request_id == 2)
    assert second.index == 9


def test_lerobot_2541_cold_start_is_not_in_the_estimate():
    """lerobot#2541: one slow first call dominates the inference delay. -> Warm-up left out."""
    estimate = DelayEstimator(window=10, warm_up=1)
    for ticks in (40, 3, 2, 3):
        estimate.add(ticks)
    assert estimate.maximum == 3
    assert estimate.samples == (3, 2, 3)


def test_lerobot_2541_one_spike_is_forgotten():
    """lerobot#2541 / #4223: a maximum over all time never forgets. -> Bounded window."""
    estimate = DelayEstimator(window=4, warm_up=0)
    for ticks in (2, 10, 2, 2, 2, 2):
        estimate.add(ticks)
    assert estimate.maximum == 2


def test_lerobot_4580_delay_beyond_the_horizon_is_said_and_the_arm_stands():
    """lerobot#4580: 24 steps of latency against a 16-step horizon: oscillates, the wrist turns by
    180 degrees. -> Never play an expired chunk; stand, and say what would fix it. Each chunk here
    moves on from the state that was observed, so playing an old one would jump back."""

    def from_observed_state(c):
        return dataclasses.replace(c, positions=c.positions - c.positions[0] + run.measured)

    run = rig(line, delay=lambda n: 24, horizon=16, edit=from_observed_state)
    run.run(300)
    assert run.handoff.counters.dropped["expired"] > 0
    assert run.handoff.counters.accepted_chunks > 2
    assert "the delay exceeds the whole chunk" in run.handoff.problem()
    steps = np.diff(run.positions()[:, 0])
    assert (steps >= -1e-9).all()
    assert steps.max() <= 0.05 + 1e-9


def test_dsrl_13_a_chunk_of_another_horizon_is_refused():
    """dsrl_pi0#13: horizon differed between training and deployment. -> 50 rows against the
    configured 16 are refused by number."""
    run = rig(delay=lambda n: 1, horizon=50, expected_rows=16).run(3)
    assert run.refusals[0].reason is Drop.HORIZON
    assert "expected 16 rows as configured, found 50" in str(run.refusals[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_groot_263_one_nan_drops_the_whole_chunk(bad):
    """Isaac-GR00T#263 / inspect-robots#356 / strands#1755: NaN actions reach the robot, inf is
    clamped to full travel. -> One bad value at step 7 drops the chunk whole, before any clipping;
    the arm goes on with the old one, then holds."""
    n = iter(range(1, 1000))

    def edit(c):
        if next(n) >= 5:
            c.positions[7, 1] = bad
        return c

    run = rig(line, edit=edit, fault_after_broken=10**6).run(150)
    assert run.handoff.counters.dropped == {"non_finite": len(run.refusals)}
    assert "row 7, joint b" in run.handoff.last_drop
    assert "download" in run.handoff.last_drop
    assert np.isfinite(run.positions()).all()
    assert run.commands[-1].state is State.HOLDING
    assert all(c.request_id < 5 for c in run.commands)


def test_strands_1099_a_chunk_that_lacks_a_joint_is_refused_not_shifted():
    """strands robots#1099: values after an absent joint shift one place. -> Refused by name."""

    def lacking(c):
        return dataclasses.replace(c, joint_names=("b",), positions=c.positions[:, 1:])

    run = rig(edit=lacking, delay=lambda n: 1).run(3)
    assert run.refusals[0].reason is Drop.JOINT_NAMES
    assert "missing ['a']" in str(run.refusals[0])


@pytest.mark.parametrize("scale", [180 / np.pi, 1e308])
def test_strands_985_values_in_another_unit_are_refused(scale):
    """strands robots#985, #3720: unnormalised or degree values go out as radians. -> A value
    farther outside the joint's limits than these are apart drops the chunk, by name."""
    run = rig(
        lambda t: np.array([0.1, 1.0]),
        joint_limits=limits(),
        delay=lambda n: 1,
        edit=lambda c: dataclasses.replace(c, positions=c.positions * [1.0, scale]),
    ).run(4)
    assert run.refusals[0].reason is Drop.OUT_OF_RANGE
    assert "b: expected within [-3, 3]" in str(run.refusals[0])
    assert run.commands[-1].state is State.WAITING


@pytest.mark.parametrize("leap", [0.6, 2.0])
def test_lerobot_4580_and_strands_3720_rows_that_leap_are_refused_not_followed(leap):
    """lerobot#4580 (the wrist turns by 180 degrees), strands robots#3720 (values of other columns):
    within every limit, so clipping would follow them at full speed. -> No policy means a joint to
    move at ten times its limit from one row to the next: the chunk is dropped whole, by name."""

    def leaping(c):
        c.positions[5:, 0] += leap
        return c

    run = rig(
        lambda t: np.zeros(2), joint_limits=limits(velocity=1.0), delay=lambda n: 1, edit=leaping
    ).run(12)
    assert run.refusals[0].reason is Drop.IMPLAUSIBLE
    assert f"a: from 0 to {leap:g} in 0.05 s at row 4" in str(run.refusals[0])
    assert run.commands[-1].state is State.FAULT, "ten in a row: the policy is wrong, not late"
    assert all(c.positions is None for c in run.commands)


def test_a_gripper_may_snap_and_a_jittering_policy_is_only_limited():
    """What real policies do: a gripper in one row, an arm that jitters by twice its limit."""

    def snapping(c):
        c.positions[5:, 1] = 2.0
        c.positions[::2, 0] += 0.1
        return c

    run = rig(
        lambda t: np.zeros(2),
        joint_limits=limits(velocity=1.0),
        delay=lambda n: 1,
        edit=snapping,
        discrete=("b",),
    ).run(12)
    assert run.refusals == []
    assert run.commands[-1].state in (State.EXECUTING, State.RAMPING)
    assert run.handoff.guard.limited_ticks > 0


def test_moveit2_287_first_command_is_ramped_from_the_measured_state():
    """moveit2#287, UR driver #498: jerk on start. -> First action 0.5 rad from the state: RAMPING,
    and no step beyond the limits."""
    bound = limits(velocity=2.0, acceleration=10.0)
    run = rig(lambda t: np.array([0.5, -0.5]), joint_limits=bound)
    run.measured = np.zeros(2)
    run.run(60)
    path = np.vstack([np.zeros(2), run.positions()])
    assert State.RAMPING in {c.state for c in run.commands}
    assert run.handoff.guard.limited_ticks == 0, "the ramp itself keeps within the limits"
    assert np.abs(np.diff(path, axis=0)).max() <= 2.0 * 0.05
    np.testing.assert_allclose(path[-1], [0.5, -0.5])


def test_resume_after_a_hold_starts_from_where_the_arm_is():
    """UR driver #905: the controller starts with a huge command. -> An arm that was pushed while
    it was held is moved from there, slowly."""
    bound = limits(velocity=2.0, acceleration=10.0)
    run = rig(lambda t: np.zeros(2), joint_limits=bound).run(40)
    run.handoff.hold()
    run.run(10)
    run.measured = np.array([0.8, 0.0])
    run.handoff.resume(run.now)
    moving = []
    for _ in range(60):
        pushed = run.measured
        command = run.one()
        if command.state is State.HOLDING:
            run.measured = pushed  # still pushed: it does not follow while it is held
        elif command.positions is not None:
            moving.append(command.positions[0])
    assert run.handoff.counters.rebases == 1
    assert moving[0] == pytest.approx(0.8, abs=10.0 * 0.05**2)
    assert np.abs(np.diff(moving)).max() <= 2.0 * 0.05 + 1e-9
    assert moving[-1] == pytest.approx(0.0, abs=1e-6)


def test_a_gripper_that_squeezes_is_not_let_go_on_resume():
    """A closed gripper never reaches its command; starting it from its measured opening would drop
    what it holds."""
    run = rig(lambda t: np.array([0.0, 0.0]), discrete=("b",)).run(40)
    run.handoff.hold()
    run.run(5)
    run.handoff.resume(run.now)
    for _ in range(10):
        run.measured = np.array([0.0, 0.5])
        run.one()
    assert run.handoff.counters.rebases == 0
    assert {c.positions[1] for c in run.commands if c.positions is not None} == {0.0}


def test_portal_69_policy_that_stops_ends_in_a_named_state_not_a_freeze():
    """livekit/portal#69: one frozen input freezes all. -> The tick never waits: it brakes, holds,
    says so, asks again, and goes on when answers come back."""
    run = rig(line, joint_limits=loose(), delay=lambda n: None if 5 <= n < 9 else 2).run(300)
    assert len(run.commands) == 300
    assert "HOLDING" in run.states()
    assert run.commands[-1].state is State.EXECUTING
    assert run.handoff.counters.request_timeouts == 4


def test_an_arm_that_is_kept_slow_does_not_make_its_policy_implausible():
    """The first runs that every page here asks for, at a twentieth of the arm's speed: ten chunks
    of an ordinary policy were a fault, and the statistics were blamed."""
    slow = limits(velocity=0.05, acceleration=2.0)
    run = rig(lambda t: np.array([0.9 * np.sin(t), 0.0]), joint_limits=slow).run(200)
    assert run.refusals == []
    assert State.EXECUTING in [c.state for c in run.commands]
    steps = np.abs(np.diff(run.positions(), axis=0))
    assert steps.max() <= 0.05 * run.period + 1e-9
