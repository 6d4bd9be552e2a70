# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Handoff methods: splices against values worked out by hand, then runs on a tick axis."""

import dataclasses

import numpy as np
import pytest
from handoff_rig import limits, rig
from hypothesis import given
from hypothesis import strategies as st

from phyai_ros.control import methods, metrics
from phyai_ros.control.chunk import Chunk, Drop, Plan
from phyai_ros.control.states import State

HELD = np.array([False, True])


def plan(first, values, request_id=1):
    rows = np.stack([np.asarray(values, float), np.asarray(values, float)], axis=1)
    chunk = Chunk(request_id, 1, 1.0, ("a", "b"), 0.05, rows)
    return Plan(first, rows, chunk)


def test_replace_takes_the_new_plan_whole():
    new = plan(4, range(10))
    assert methods.make("replace").splice(plan(0, range(10)), new, 6, HELD) is new


def test_blend_moves_the_weight_over_the_shared_ticks_and_switches_grippers_at_once():
    old, new = plan(0, np.zeros(8)), plan(4, np.ones(8))
    result = methods.make("blend").splice(old, new, 5, HELD)
    # Ticks 5, 6, 7 are in both: weights of the new 1/4, 2/4, 3/4.
    np.testing.assert_allclose(result.rows[:, 0], [1, 0.25, 0.5, 0.75, 1, 1, 1, 1])
    np.testing.assert_array_equal(result.rows[:, 1], np.ones(8))
    np.testing.assert_array_equal(new.rows, np.ones((8, 2)))


def test_blend_over_a_limited_number_of_ticks():
    result = methods.make("blend", blend_ticks=1).splice(
        plan(0, np.zeros(8)), plan(4, np.ones(8)), 5, HELD
    )
    np.testing.assert_allclose(result.rows[:, 0], [1, 0.5, 1, 1, 1, 1, 1, 1])


def test_blend_without_overlap_replaces():
    old, new = plan(0, np.zeros(4)), plan(3, np.ones(8))
    np.testing.assert_array_equal(methods.make("blend").splice(old, new, 4, HELD).rows, new.rows)
    assert methods.make("blend").splice(None, new, 4, HELD) is new


def test_ensemble_weights_are_those_of_act():
    """ACT: w_i = exp(-m i), i = 0 the oldest prediction of a tick."""
    method = methods.make("ensemble", decay=0.5)
    method.splice(None, plan(0, np.zeros(6)), 0, HELD)
    method.splice(None, plan(1, np.full(6, 1.0)), 1, HELD)
    result = method.splice(None, plan(2, np.full(6, 3.0)), 2, HELD)
    w = np.exp(-0.5 * np.arange(3))
    all_three = (w @ [0.0, 1.0, 3.0]) / w.sum()
    # Tick 6 has two predictions left: the second chunk is the oldest there. Tick 7 only one.
    two = (w[:2] @ [1.0, 3.0]) / w[:2].sum()
    np.testing.assert_allclose(result.rows[:, 0], [all_three] * 4 + [two, 3.0])
    np.testing.assert_array_equal(result.rows[:, 1], np.full(6, 3.0))


def test_ensemble_forgets_with_the_epoch():
    method = methods.make("ensemble")
    method.splice(None, plan(0, np.full(6, 9.0)), 0, HELD)
    method.clear()
    result = method.splice(None, plan(1, np.zeros(6)), 1, HELD)
    np.testing.assert_array_equal(result.rows, np.zeros((6, 2)))


def test_ensemble_counts_every_chunk_that_reaches_the_tick():
    """ACT infers every tick with a chunk of 100: all hundred predictions of a tick count."""
    method = methods.make("ensemble", decay=0.0)
    for start in range(100):
        result = method.splice(None, plan(start, np.full(100, float(start))), start, HELD)
    assert result.rows[0, 0] == pytest.approx(np.mean(range(100)))
    result = method.splice(None, plan(500, np.full(100, 1.0)), 500, HELD)
    np.testing.assert_array_equal(result.rows, np.ones((100, 2)))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(0, 3)), max_size=12),
    st.floats(-1.0, 1.0),
)
def test_ensemble_is_the_weighted_mean_of_all_that_predict_a_tick(steps, decay):
    """steps: ticks since the splice before, rows of the plan, rows of it that are past already."""
    method, known, tick = methods.make("ensemble", decay=decay), [], 10
    for number, (later, rows, past) in enumerate(steps):
        tick += later
        new = plan(tick - past, np.arange(past + rows) + 100.0 * number)
        known.append(new)
        result = method.splice(None, new, tick, HELD)
        for t in range(tick, new.end):
            found = [p.row(t)[0] for p in known if p.end > t]
            weights = np.exp(-decay * np.arange(len(found)))
            expected = weights @ found / weights.sum()
            assert result.row(t)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            assert result.row(t)[1] == new.row(t)[1]


def test_ensemble_asks_again_with_every_answer():
    run = rig(method=methods.make("ensemble"), delay=lambda n: 1).run(60)
    uses = [c.tick for c in run.commands if c.first_use]
    assert set(np.diff(uses)) == {1}


def noisy(seed):
    """Two equally good ways, chosen anew by each chunk: what makes seams."""
    rng = np.random.default_rng(seed)

    def edit(chunk):
        return dataclasses.replace(chunk, positions=chunk.positions + rng.normal(0, 0.05))

    return edit


@pytest.mark.parametrize("name", ["blend", "ensemble"])
def test_mixing_methods_lower_the_boundary_jerk_that_replace_has(name):
    def boundary(method):
        run = rig(
            lambda t: np.array([0.3 * np.sin(t), 0.3 * np.cos(t)]),
            delay=lambda n: 3,
            edit=noisy(1),
            method=methods.make(method),
        ).run(600)
        executed = [c for c in run.commands if c.state is State.EXECUTING]
        uses = [i for i, c in enumerate(executed) if c.first_use]
        return metrics.jerk(np.stack([c.positions for c in executed]), uses[2:]).boundary

    assert boundary(name) < 0.75 * boundary("replace")


def test_synchronous_executes_its_horizon_then_looks_again_from_a_standing_arm():
    run = rig(
        lambda t: np.array([0.1 * t, 0.0]),
        delay=lambda n: 5,
        joint_limits=limits(position=100.0),
        execution_horizon=8,
        method=methods.make("synchronous"),
    ).run(200)
    starts = [c.tick for c in run.commands if c.first_use]
    for request, start in zip(run.requests[1:], starts[1:], strict=False):
        assert request.not_before >= run.handoff.axis.time(request.tick) - 1e-6
        assert start - request.tick == 5
        assert len(request.leftover) == 0
    assert all(c.index < 8 for c in run.commands)
    assert run.handoff.counters.starved_ticks == 0


def test_rtc_trained_discards_a_chunk_beyond_its_conditioned_delay_others_splice_it():
    def conditioned(chunk):
        return dataclasses.replace(chunk, committed=3)

    def outcome(name):
        run = rig(
            delay=lambda n: 6 if n == 8 else 3,
            edit=conditioned,
            method=methods.make(name),
        ).run(150)
        return run.handoff.counters

    trained = outcome("rtc_trained")
    assert trained.dropped == {Drop.CONDITIONED_DELAY.value: 1}
    identity = outcome("rtc_identity")
    assert identity.dropped == {}
    assert identity.late_chunks == 1


def test_unknown_methods_and_options_list_what_there_is():
    with pytest.raises(ValueError, match=r"expected one of \['blend', 'ensemble'.*found 'rtc'"):
        methods.make("rtc")
    with pytest.raises(ValueError, match=r"options among \['blend_ticks'\], found 'tick'"):
        methods.make("blend", tick=3)


def test_a_policy_that_cannot_be_guided_is_told_what_it_can_do():
    methods.check_guidance("blend", (), "act")
    methods.check_guidance("rtc_identity", ("rtc_identity",), "pi05")
    with pytest.raises(ValueError, match=r"'rtc_trained' needs.*pi05 can do \[.*'rtc_identity'"):
        methods.check_guidance("rtc_trained", ("rtc_identity",), "pi05")
