# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Handoff: placement on the tick axis, requests, states, counters."""

import dataclasses
import math
import re

import numpy as np
import pytest
from handoff_rig import START, limits, rig

from phyai_ros.control.chunk import Drop
from phyai_ros.control.handoff import HandoffConfig
from phyai_ros.control.states import State


def line(t):
    """A position that tells the time: one unit a second."""
    return np.array([t, -t])


def test_rows_are_played_at_their_own_time():
    run = rig(line, delay=lambda n: 4).run(200)
    executed = [c for c in run.commands if c.state is State.EXECUTING]
    assert len(executed) >= 195
    # The first chunk starts at row 0 from a standing arm; from its second chunk on the
    # observation is of the moving arm and row and time agree exactly.
    for c in executed[40:]:
        assert c.positions[0] == pytest.approx(0.05 * c.tick, abs=1e-9)
    assert run.handoff.counters.starved_ticks == 0
    assert run.handoff.counters.late_chunks == 0


@pytest.mark.parametrize("delay", [1, 2, 4, 8])
def test_no_starved_tick_while_delay_is_at_most_horizon_minus_execution_horizon(delay):
    run = rig(line, delay=lambda n: delay, execution_horizon=8).run(400)
    assert run.handoff.counters.starved_ticks == 0
    assert run.commands[-1].state is State.EXECUTING


def test_execution_horizon_sets_how_many_rows_are_executed():
    run = rig(line, delay=lambda n: 2, execution_horizon=8, margin=0).run(200)
    uses = [c.tick for c in run.commands if c.first_use][4:]
    assert set(np.diff(uses)) == {8}


def test_margin_asks_earlier():
    run = rig(line, delay=lambda n: 2, execution_horizon=8, margin=3).run(200)
    uses = [c.tick for c in run.commands if c.first_use][4:]
    assert set(np.diff(uses)) == {5}


def test_expected_delay_is_the_maximum_of_a_bounded_window():
    delays = [30, 2, 2, 9, *([2] * 100)]
    run = rig(line, delay=lambda n: delays[n - 1], horizon=20, window=5).run(300)
    expected = [r.expected_delay for r in run.requests]
    assert max(expected) == 9
    assert expected[-1] == 2


def test_leftover_is_what_was_and_will_be_commanded():
    run = rig(line, delay=lambda n: 4).run(200)
    for request in run.requests[5:]:
        rows = len(request.leftover)
        times = request.first_time - START + 0.05 * np.arange(rows)
        np.testing.assert_allclose(request.leftover[:, 0], times, atol=1e-9)
        first_tick = round((request.first_time - START) / 0.05)
        assert first_tick <= request.tick
        assert request.committed == request.tick + 4 - first_tick
        assert rows > request.committed


def test_a_wait_for_a_camera_is_not_taken_for_slow_inference():
    """The policy waits for a frame, then is as quick as ever: what is committed follows the
    delay from the observation, not from the request."""
    run = rig(line, delay=lambda n: 2)
    held_up = iter([0] * 5 + [9] + [0] * 100)

    def late_observation(request, stamp=None, answer=run.answer):
        return answer(request, run.now + 0.05 * next(held_up))

    run.answer = late_observation
    run.delay = lambda n: 11 if n == 6 else 2
    run.run(60)
    assert run.handoff.requests.lead.maximum == 11
    assert run.handoff.requests.delay.maximum == 2
    for request in run.requests[8:]:
        first_tick = round((request.first_time - START) / 0.05)
        assert first_tick + request.committed <= request.tick + 3


def test_an_instruction_during_a_hold_does_not_end_or_rename_it():
    run = rig(line, delay=lambda n: 2).run(40)
    run.handoff.hold("held by service")
    run.handoff.set_instruction("another", run.now)
    command = run.run(10).commands[-1]
    assert command.state is State.HOLDING
    assert command.reason == "held by service"


def test_leftover_of_a_standing_arm_is_empty_not_padded():
    run = rig(line, delay=lambda n: None).run(3)
    assert run.requests[0].leftover.shape == (0, 2)
    assert run.requests[0].committed == 0


def test_late_chunk_is_spliced_at_its_true_index_and_counted():
    delays = {6: 7}
    run = rig(line, delay=lambda n: delays.get(n, 2)).run(120)
    assert run.handoff.counters.late_chunks == 1
    assert run.handoff.counters.starved_ticks == 0
    late = next(c for c in run.commands if c.first_use and c.request_id == 6)
    assert late.index == 7
    assert late.positions[0] == pytest.approx(0.05 * late.tick)


def test_fully_expired_chunk_is_dropped_and_counted():
    run = rig(line, delay=lambda n: 12, horizon=8, execution_horizon=4).run(60)
    assert run.handoff.counters.dropped["expired"] >= 1
    assert "takes longer than the chunk lasts" in run.handoff.last_drop
    assert run.handoff.counters.accepted_chunks >= 2


def test_lost_request_is_repeated_after_the_timeout():
    run = rig(line, delay=lambda n: None if n == 4 else 2, request_timeout=1.0).run(200)
    assert run.handoff.counters.request_timeouts == 1
    assert run.requests[4].tick - run.requests[3].tick == 21
    assert run.commands[-1].state is State.EXECUTING


def test_starvation_decelerates_holds_and_resumes():
    run = rig(
        lambda t: np.array([0.5 * t, 0.0]),
        delay=lambda n: 45 if n == 5 else 2,
        joint_limits=limits(position=50.0, acceleration=2.0),
        request_timeout=10.0,
    ).run(150)
    names = [n for k, n in enumerate(run.states()) if k == 0 or n != run.states()[k - 1]]
    assert names == ["WAITING", "EXECUTING", "STARVED", "HOLDING", "EXECUTING"]
    speeds = np.diff([c.positions[0] for c in run.commands if c.state is State.STARVED])
    np.testing.assert_allclose(np.diff(speeds), -2.0 * 0.05**2, atol=1e-9)
    held = [c.positions[0] for c in run.commands if c.state is State.HOLDING]
    assert len(set(held)) == 1
    standing = sum(n in ("STARVED", "HOLDING") for n in run.states())
    assert run.handoff.counters.starved_ticks == standing


def test_starvation_faults_after_the_limit_and_reset_leaves_it():
    run = rig(line, delay=lambda n: 2 if n < 5 else None, fault_after=1.0).run(120)
    assert run.commands[-1].state is State.FAULT
    assert "no chunk for 1." in run.commands[-1].reason
    assert run.handoff.for_people == "", "it is the policy's alone"
    assert run.commands[-1].positions is None
    assert run.handoff.request(run.now) is None
    run.handoff.reset(run.now)
    run.delay = lambda n: 2
    run.run(30)
    assert run.commands[-1].state is State.EXECUTING


def test_waiting_publishes_nothing():
    run = rig(delay=lambda n: 10).run(9)
    assert {c.state for c in run.commands} == {State.WAITING}
    assert all(c.positions is None for c in run.commands)


def test_no_joint_state_no_motion():
    run = rig(delay=lambda n: 2)
    for _ in range(10):
        run.one()
        run.measured = np.array([np.nan, 0.0])
    assert all(c.positions is None for c in run.commands)
    assert "joint state" in run.commands[-1].reason
    assert run.handoff.counters.bad_measurements > 0


def test_hold_and_resume_begin_a_new_epoch_and_ask_for_a_fresh_observation():
    run = rig(line, delay=lambda n: 2).run(40)
    epoch = run.handoff.epoch
    run.handoff.hold()
    run.run(20)
    assert run.commands[-1].state is State.HOLDING
    assert run.commands[-1].reason == "hold"
    assert len({c.positions[0] for c in run.commands[-5:]}) == 1
    resumed_at = run.now
    run.handoff.resume(run.now)
    run.run(20)
    assert run.handoff.epoch == epoch + 1
    assert run.requests[-1].not_before >= resumed_at
    assert run.commands[-1].state is State.EXECUTING


def test_new_instruction_stops_old_motion_and_reaches_the_request():
    run = rig(line, delay=lambda n: 4).run(40)
    run.handoff.set_instruction("reach the green block", run.now)
    command = run.one()
    assert command.state is State.HOLDING
    assert "new instruction" in command.reason
    assert run.requests[-1].instruction == "reach the green block"
    run.run(10)
    assert run.handoff.counters.dropped["old_epoch"] == sum(
        r.reason is Drop.OLD_EPOCH for r in run.refusals
    )
    assert run.commands[-1].state is State.EXECUTING
    epoch = run.handoff.epoch
    run.handoff.set_instruction("reach the green block", run.now)
    assert run.handoff.epoch == epoch


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        ({"joint_names": ("a", "c")}, Drop.JOINT_NAMES, r"missing \['b'\], unknown \['c'\]"),
        ({"joint_names": ("a",)}, Drop.JOINT_NAMES, r"missing \['b'\]"),
        ({"positions": np.zeros((50, 2))}, Drop.HORIZON, "expected 16 rows.*found 50"),
        ({"positions": np.zeros(32)}, Drop.SHAPE, r"found shape \[32\]"),
        ({"step": 1 / 30}, Drop.STEP, "whole multiple"),
        ({"step": 0.0}, Drop.STEP, "found 0.0"),
        ({"step": 0.025}, Drop.STEP, "whole multiple"),
        ({"stamp": 0.0}, Drop.ZERO_STAMP, "expected a time"),
        ({"epoch": 99}, Drop.OLD_EPOCH, "now is epoch 1"),
        ({"request_id": 77}, Drop.UNKNOWN_REQUEST, "request 77"),
    ],
)
def test_refused_chunks_are_named_counted_and_do_not_move_the_arm(change, reason, text):
    run = rig(
        delay=lambda n: 1, expected_rows=16, edit=lambda c: dataclasses.replace(c, **change)
    ).run(4)
    assert {r.reason for r in run.refusals} == {reason}
    assert re.search(text, str(run.refusals[0]))
    assert run.handoff.counters.dropped == {reason.value: len(run.refusals)}
    assert run.commands[-1].state is State.WAITING


def test_duplicate_and_superseded_chunks_are_dropped():
    run = rig(line, delay=lambda n: 2).run(30)
    again = run.answer(run.requests[2])
    run.give(again)
    assert run.refusals[-1].reason is Drop.DUPLICATE


def test_columns_are_found_by_name():
    def shuffle(c):
        return dataclasses.replace(c, joint_names=("b", "a"), positions=c.positions[:, ::-1])

    plain, shuffled = rig(line).run(60), rig(line, edit=shuffle).run(60)
    np.testing.assert_array_equal(plain.positions(), shuffled.positions())


def test_chunk_step_of_two_ticks_is_upsampled_linearly_and_grippers_are_held():
    def edges(c):
        positions = c.positions.copy()
        positions[:, 1] = np.arange(len(positions)) % 2
        return dataclasses.replace(c, positions=positions)

    run = rig(line, step=0.1, horizon=8, execution_horizon=4, edit=edges, discrete=("b",)).run(80)
    executed = [c for c in run.commands if c.state is State.EXECUTING]
    for c in executed[40:]:
        assert c.positions[0] == pytest.approx(0.05 * c.tick, abs=1e-9)
        assert c.positions[1] in (0.0, 1.0)
    uses = [c.tick for c in executed if c.first_use][3:]
    assert max(np.diff(uses)) <= 8


def test_ten_unusable_chunks_in_a_row_fault():
    def nan(c):
        c.positions[3, 1] = np.nan
        return c

    run = rig(delay=lambda n: 1, edit=nan, fault_after_broken=10).run(60)
    assert run.commands[-1].state is State.FAULT
    assert "10 unusable chunks in a row" in run.commands[-1].reason
    assert run.handoff.for_people == "", "it is the policy's alone"
    assert "row 3, joint b" in run.commands[-1].reason
    assert len(run.refusals) == 10


def test_missed_ticks_are_counted_and_the_row_is_still_the_true_one():
    run = rig(line, delay=lambda n: 2).run(40)
    run.now += 0.10
    command = run.one()
    assert command.missed == 2
    assert run.handoff.counters.missed_ticks == 2
    assert command.positions[0] == pytest.approx(0.05 * command.tick)


def test_a_call_too_early_repeats_the_tick():
    run = rig(line, delay=lambda n: 2).run(40)
    last = run.commands[-1]
    again = run.handoff.tick(run.now - 0.045, run.measured)
    assert again.repeated
    assert again.tick == last.tick
    np.testing.assert_array_equal(again.positions, last.positions)
    assert run.handoff.counters.ticks == 40


@pytest.mark.parametrize("jump", [-100.0, -1.0, 5.0, 3600.0])
def test_a_clock_jump_begins_a_new_epoch_from_a_standing_arm(jump):
    run = rig(line, delay=lambda n: 2).run(40)
    tick, epoch = run.commands[-1].tick, run.handoff.epoch
    run.now += jump
    command = run.one()
    assert command.tick == tick + 1
    assert command.state is State.HOLDING
    assert "clock jumped" in command.reason
    assert ("the control timer stood" in command.reason) is (jump > 0), "nothing tells which"
    assert run.handoff.epoch == epoch + 1
    assert run.handoff.counters.clock_jumps == 1
    run.run(60)
    assert run.commands[-1].state is State.EXECUTING
    assert run.handoff.counters.clock_jumps == 1


def test_a_slowly_drifting_clock_neither_misses_nor_repeats_ticks():
    run = rig(line, delay=lambda n: 2)
    for _ in range(20000):
        run.now += 0.05 * 500e-6
        run.one()
    assert run.handoff.counters.missed_ticks == 0
    assert not any(c.repeated for c in run.commands)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"period": 0.0}, "period"),
        ({"execution_horizon": 0}, "execution_horizon"),
        ({"execution_horizon": 20, "horizon": 16}, "at most the chunk's horizon 16"),
    ],
)
def test_bad_configuration_is_named(bad, text):
    with pytest.raises(ValueError, match=text):
        HandoffConfig(**{"period": 0.05, "execution_horizon": 8, **bad})


def test_a_new_chunk_that_comes_while_the_arm_still_brakes_does_not_stop_it_dead():
    bound = limits(position=100.0, velocity=2.0, acceleration=4.0)
    run = rig(lambda t: np.array([1.5 * t, 0.0]), delay=lambda n: 1, joint_limits=bound).run(80)
    run.handoff.set_instruction("the other block", run.now)
    run.run(60)
    speed = np.diff([c.positions[0] for c in run.commands if c.positions is not None]) / 0.05
    assert np.abs(np.diff(speed)).max() <= 4.0 * 0.05 + 1e-9
    assert run.commands[-1].state is State.EXECUTING


@pytest.mark.parametrize("stamp", [1e-3, 1.0, 1e12])
def test_a_stamp_of_another_clock_is_not_taken_for_a_delay(stamp):
    run = rig(edit=lambda c: dataclasses.replace(c, stamp=stamp)).run(20)
    assert set(run.states()) == {"WAITING"}
    assert run.handoff.measured_delay == 0
    assert {r.expected_delay for r in run.requests} == {0}
    run.edit = lambda c: c
    run.run(20)
    assert run.states()[-1] == "EXECUTING"
    assert run.handoff.requests.expected_delay == 2


def test_what_was_seen_before_a_reset_moves_nothing_after_it():
    """A policy that answers with what it saw before: the request's stamp is the oldest observation
    that will do, and the handoff holds the policy to it."""
    run = rig().run(30)
    before = run.now - 0.3
    run.handoff.reset(run.now)
    run.edit = lambda c: dataclasses.replace(c, stamp=before)
    run.run(20)
    assert {c.state.name for c in run.commands[-15:]} == {"WAITING"}
    assert run.handoff.counters.dropped["too_old"] > 0
    assert "asked for what is seen from" in run.handoff.last_drop
    run.edit = lambda c: c
    run.run(20)
    assert run.states()[-1] == "EXECUTING"


@pytest.mark.parametrize("step", [1000.0, 1e9])
def test_a_chunk_that_would_last_for_ever_is_refused_before_it_is_placed(step):
    run = rig(edit=lambda c: dataclasses.replace(c, step=step)).run(6)
    assert set(run.states()) == {"WAITING"}
    assert run.refusals[0].reason is Drop.STEP
    assert "at most 10000 ticks, found 16 rows" in str(run.refusals[0])


def test_a_chunk_of_too_many_rows_is_refused():
    run = rig(edit=lambda c: dataclasses.replace(c, positions=np.zeros((10_001, 2)))).run(6)
    assert set(run.states()) == {"WAITING"}
    assert run.refusals[0].reason is Drop.HORIZON


@pytest.mark.parametrize("position", [90.0, -1e9, math.inf])
def test_no_motion_starts_from_a_position_in_another_unit(position):
    run = rig(joint_limits=limits())
    run.measured = np.array([0.0, position])
    run.run(8)
    assert set(run.states()) == {"WAITING"}
    assert all(c.positions is None for c in run.commands)
    assert "b is far outside [-3, 3]" in run.commands[-1].reason
    run.measured = np.array([0.0, 3.2])  # a little outside: it is moved inwards
    run.run(20)
    assert run.states()[-1] in ("RAMPING", "EXECUTING")


def test_no_motion_begins_while_somebody_waits_and_one_that_has_begun_goes_on():
    run = rig(joint_limits=limits())
    run.handoff.waits_for = "listening for others"
    run.run(8)
    assert all(c.positions is None for c in run.commands)
    assert run.commands[-1].reason == "listening for others"
    run.handoff.waits_for = ""
    run.run(20)
    run.handoff.waits_for = "listening for others"
    run.run(4)
    assert run.states()[-1] in ("RAMPING", "EXECUTING")


@pytest.mark.parametrize(("moved_to", "starts_at"), [(0.5, 0.0), (0.9, 0.9)])
def test_a_gripper_that_squeezes_is_not_opened_by_a_new_start(moved_to, starts_at):
    joint_limits = limits(position=1.0)
    run = rig(lambda t: np.array([0.2, 0.0]), joint_limits=joint_limits, discrete=("b",))

    def tick(measured):
        command = run.handoff.tick(run.now, np.array(measured))
        if (request := run.handoff.request(run.now)) is not None:
            run.give(run.answer(request))
        run.now += run.period
        return command

    for _ in range(40):
        command = tick([0.2, 0.5])  # told to close, it stands at 0.5: there is something between
    assert command.positions[1] == 0.0
    run.handoff.hold()
    for _ in range(20):
        tick([0.2, 0.5])
    run.handoff.let_go()
    assert tick([0.7, 0.5]).positions is None
    run.handoff.reset(run.now)
    while (command := tick([0.7, moved_to])).positions is None:
        pass
    assert command.positions[1] == pytest.approx(starts_at, abs=0.06)
    assert command.positions[0] == pytest.approx(0.7, abs=0.06)  # the arm: from where it is


def test_let_go_while_executing_starts_again_from_the_measured_state():
    run = rig(lambda t: np.array([0.2, 0.0]), joint_limits=limits()).run(30)
    assert run.states()[-1] == "EXECUTING"
    run.handoff.let_go()
    run.measured = np.array([0.6, 0.0])
    command = run.one()
    assert command.state is State.RAMPING
    assert command.positions[0] == pytest.approx(0.6, abs=0.03)


def test_reset_of_an_arm_moved_meanwhile_never_commands_the_old_pose():
    run = rig(lambda t: np.array([0.2, 0.5]), joint_limits=limits(), delay=lambda n: 3).run(40)
    assert run.states()[-1] == "EXECUTING"
    run.handoff.reset(run.now)
    run.handoff.hold()
    run.run(10)  # also where it stood on under a hold first
    run.handoff.reset(run.now)
    run.measured = np.array([-0.6, 0.5])  # another episode: the arm was put elsewhere
    seen = len(run.commands)
    run.run(12)
    after = run.commands[seen:]
    waiting = [c for c in after if c.state is State.WAITING]
    assert waiting
    assert all(c.positions is None for c in waiting)
    sent = [c for c in after if c.positions is not None]
    assert sent[0].state is State.RAMPING
    assert sent[0].positions[0] == pytest.approx(-0.6, abs=0.03)


@pytest.mark.parametrize(("moved_to", "starts_at"), [(0.5, 0.0), (0.9, 0.9)])
def test_a_reset_does_not_open_a_gripper_that_holds_something(moved_to, starts_at):
    grip = {"joint_limits": limits(position=1.0), "discrete": ("b",)}
    run = rig(lambda t: np.array([0.2, 0.0]), **grip)

    def tick(measured):
        run.measured = np.array(measured)
        return run.one()

    for _ in range(40):
        command = tick([0.2, 0.5])  # told to close, it stands at 0.5: there is something between
    assert command.positions[1] == 0.0
    run.handoff.hold()
    for _ in range(20):
        assert tick([0.2, 0.5]).positions is not None, "a squeezing gripper is no moved arm"
    run.handoff.reset(run.now)
    while (command := tick([0.2, moved_to])).positions is None:
        pass
    assert command.positions[1] == pytest.approx(starts_at, abs=0.06)


def test_reset_of_a_moving_arm_brakes_it_within_its_limits_and_then_sends_nothing():
    run = rig(line, joint_limits=limits(velocity=40.0, acceleration=4.0)).run(20)
    assert run.states()[-1] in ("EXECUTING", "RAMPING")
    run.delay = lambda n: None
    sent = len(run.positions())
    run.handoff.reset(run.now)
    run.run(30)
    steps = np.diff(run.positions()[:, 0])
    assert len(run.positions()) > sent, "it was braked"
    assert steps[-1] == pytest.approx(0.0), "to rest"
    assert np.abs(np.diff(steps)).max() <= 4.0 * 0.05**2 + 1e-9
    assert run.commands[-1].state is State.WAITING
    assert run.commands[-1].positions is None


@pytest.mark.parametrize("by", ["hold", "starved"])
def test_an_arm_moved_by_something_else_while_it_stands_is_not_snapped_back(by):
    """A person guides it, or its own safety stopped it: no tick commands where it was before."""
    run = rig(lambda t: np.array([0.2, 0.0]), joint_limits=limits()).run(40)
    run.delay = lambda n: None
    if by == "hold":
        run.handoff.hold("held by a person")
    run.run(40)
    assert run.states()[-1] == "HOLDING"
    assert run.commands[-1].positions[0] == pytest.approx(0.2)  # held where it was told to be
    run.measured = np.array([0.7, 0.0])
    run.run(5)
    assert all(c.positions is None for c in run.commands[-5:])
    assert "a was moved, so nothing is commanded" in run.commands[-1].reason
    assert run.handoff.counters.rebases == 1
    run.delay = lambda n: 2
    run.handoff.resume(run.now)
    seen = len(run.commands)
    run.run(60)
    sent = [c.positions[0] for c in run.commands[seen:] if c.positions is not None]
    assert sent[0] == pytest.approx(0.7, abs=0.03)
    assert run.commands[-1].state is State.EXECUTING


@pytest.mark.parametrize("late", range(8, 20))
def test_an_arm_that_follows_late_goes_on_from_its_command_when_a_late_chunk_comes(late):
    """Just braked, it is still on its way: where it is then is no place to begin from, it would be
    told to jump back."""
    acceleration = 12.0
    run = rig(
        lambda t: np.array([0.8 * t, 0.0]),
        lambda n: late if n == 6 else 2,
        limits(position=20.0, acceleration=acceleration),
        fault_after=60.0,
    )
    for _ in range(120):
        run.one()
        run.measured = run.commands[max(0, len(run.commands) - 6)].positions
    assert run.commands[-1].state is State.EXECUTING
    steps = np.diff([c.positions[0] for c in run.commands if c.positions is not None])
    assert np.abs(np.diff(steps)).max() <= acceleration * run.period**2 + 1e-9
    assert run.handoff.counters.rebases == 0


def test_an_arm_that_is_stopped_short_of_its_command_is_let_go_after_a_second():
    run = rig(lambda t: np.array([0.8, 0.0]), joint_limits=limits())
    run.delay = lambda n: 2 if n < 6 else None

    def tick():
        command = run.one()
        run.measured = np.zeros(2)  # a protective stop: it never moves
        return command

    commands = [tick() for _ in range(120)]
    assert any(c.state is State.HOLDING and c.positions is not None for c in commands)
    assert commands[-1].positions is None
    assert "a was moved" in commands[-1].reason


def test_an_arm_of_which_nothing_is_known_is_let_go_and_its_next_command_starts_from_it():
    """Its driver was killed, and came back with the arm elsewhere: a command of the old pose would
    make it jump."""
    run = rig(lambda t: np.array([0.2, 0.0]), joint_limits=limits()).run(40)
    run.delay = lambda n: None
    run.run(30)
    assert run.states()[-1] == "HOLDING"
    blind = [run.handoff.tick(run.now + k * run.period, None) for k in range(1, 40)]
    run.now += 40 * run.period
    assert blind[0].positions is not None, "a gap is no reason"
    assert blind[-1].positions is None
    assert "where the arm is is not known" in blind[-1].reason
    run.measured = np.array([0.9, 0.0])
    run.delay = lambda n: 2
    seen = len(run.commands)
    run.run(60)
    sent = [c.positions[0] for c in run.commands[seen:] if c.positions is not None]
    assert sent[0] == pytest.approx(0.9, abs=0.03)
    assert run.commands[-1].state is State.EXECUTING


def test_an_arm_that_comes_back_elsewhere_after_a_gap_is_not_waited_for():
    """It stood still before it vanished or it did not: it is not on its way to the old pose."""
    run = rig(lambda t: np.array([0.8, 0.0]), joint_limits=limits()).run(20)
    run.handoff.hold("held")
    while not run.handoff.guard.standing:
        run.one()
    for _ in range(5):
        assert run.handoff.tick(run.now, None).positions is not None
        run.now += run.period
    command = run.handoff.tick(run.now, np.array([-0.9, 0.0]))
    assert command.positions is None
    assert "a was moved" in command.reason


def test_every_chunk_is_counted_once():
    """Also one that another overtakes, or a hold or a new epoch, before the tick that would have
    begun with it."""
    run = rig(delay=lambda n: None, request_timeout=0.1).run(8)
    first, second, third = run.requests[:3]
    for request, stamp in ((first, 1000.0), (second, 1000.1)):
        run.give(run.answer(request, stamp))
    run.one()
    counters = run.handoff.counters
    assert (counters.accepted_chunks, counters.dropped) == (1, {"superseded": 1})
    run.give(run.answer(third))
    run.handoff.hold()
    run.run(3)
    assert counters.dropped == {"superseded": 1, "held": 1}
    run.handoff.resume(run.now)
    run.give(run.answer(run.handoff.request(run.now)))
    run.handoff.set_instruction("another", run.now)
    run.run(3)
    assert counters.dropped == {"superseded": 1, "held": 1, "old_epoch": 1}
    assert "another" not in run.handoff.last_drop
    assert run.refusals == []  # each was taken when it came
