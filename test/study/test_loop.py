# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Injected delays in closed loop on the virtual clock; no outcome depends on wall time."""

from __future__ import annotations

import math

import pytest

from phyai_ros.study import latency, measure
from phyai_ros.study.loop import Condition, run_episode

PERIOD = 0.05
HORIZON = 16


def condition(handoff="replace", delay="0", horizon=8):
    return Condition(handoff, horizon, latency.parse(delay))


def total(rows, key):
    return math.fsum(row[key] for row in rows)


@pytest.mark.parametrize("ticks", [0, 2, 4, 8, 16])
@pytest.mark.parametrize("horizon", [4, 8, 12])
def test_no_tick_starves_while_the_delay_fits(expert, ticks, horizon):
    """d <= H - s: every tick has a fresh action; a delay that does not fit shows."""
    row = expert.run(condition(delay=f"{50 * ticks}", horizon=horizon), 11)
    assert row["delay_max"] <= max(1, ticks)
    if ticks <= HORIZON - max(horizon, ticks):
        assert row["starved"] == 0
        assert row["late"] == row["dropped"] == 0
        assert row["acting"] == row["ticks"]
    if ticks > HORIZON - horizon and ticks >= horizon:
        assert row["starved"] > 0


def test_a_fivefold_spike_is_counted_and_its_chunk_is_used_at_its_true_index(expert):
    """2 ticks, every fifth answer 8 = H - s: the plan lasts just so long."""
    trace = run_episode(
        expert.world, expert.robot, expert.player, condition(delay="80x5@5"), 11, 10.0
    )
    row = measure.episode(trace, range(6), PERIOD)
    assert row["late"] > 0
    assert row["delay_max"] == 8
    assert row["starved"] == 0
    for report in trace.reports:
        if report.command.first_use and report.command.index:
            seen = trace.observed[report.command.request_id]
            assert report.command.index == round((report.now - seen) / PERIOD)


def test_a_spike_longer_than_the_chunk_starves_brakes_and_goes_on(expert):
    calm = expert.run(condition(delay="200"), 11)
    row = expert.run(condition(delay="200x5@3"), 11)
    assert calm["starved"] == 0
    assert row["starved"] > 0
    assert row["answers"] >= 4  # it went on after the first spike
    assert row["limited"] < row["ticks"]


def test_synchronous_waits_and_overlapping_does_not(expert):
    rows = {name: expert.run(condition(name, "200"), 11) for name in ("synchronous", "replace")}
    assert rows["replace"]["acting"] == rows["replace"]["ticks"]
    assert rows["synchronous"]["acting"] < 0.8 * rows["synchronous"]["ticks"]
    reaction = {k: r["reaction"] / r["unseen"] for k, r in rows.items()}
    assert reaction["synchronous"] > reaction["replace"] + 0.1


def test_ages_and_reaction_follow_from_delay_and_horizon(expert):
    """Steady execution at d = 4, s = 8: rows 4 to 11 of each chunk; s/2 more until one reacts."""
    slow = expert.robot.period
    row = measure.summary([expert.run(condition("replace", "200", 8), s) for s in range(11, 17)])
    assert row["age_first"] == pytest.approx(4 * slow, abs=0.01)
    assert 9 * slow < row["age_last"] < 11.5 * slow
    assert 4 * slow + 2 * slow < row["reaction"] < 4 * slow + 4.5 * slow


def test_pictures_taken_before_the_tick_are_that_much_older(expert):
    rows = [
        measure.episode(
            run_episode(
                expert.world, expert.robot, expert.player, condition(delay="180"), 11, 10.0, age
            ),
            range(6),
            PERIOD,
        )
        for age in (0.0, 0.02)
    ]
    first = [row["age_first"] / row["chunks"] for row in rows]
    assert first[1] == pytest.approx(first[0] + 0.02, abs=0.005)
    assert all(row["success"] and not row["starved"] for row in rows)


def test_the_same_seed_is_the_same_episode_whatever_ran_before(policy):
    first = policy.run(condition("rtc_identity", "200"), 7)
    policy.run(condition("synchronous", "100"), 8)
    assert policy.run(condition("rtc_identity", "200"), 7) == first
    assert policy.run(condition("rtc_identity", "200"), 9) != first


SEEDS = range(2_000_000, 2_000_004)


@pytest.fixture(scope="module")
def at_four_ticks(policy):
    """handoff -> rows at d = 4 on the moving block; for replace also at d = 0."""
    rows = {
        name: [policy.run(condition(name, "200"), seed) for seed in SEEDS]
        for name in ("synchronous", "replace", "rtc_identity", "rtc_overlap", "rtc_vjp", "seam")
    }
    rows["no delay"] = [policy.run(condition("replace", "0"), seed) for seed in SEEDS]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rtc_identity", "rtc_overlap", "rtc_vjp", "seam"])
def test_guided_methods_join_chunks_no_worse_than_replace(at_four_ticks, name):
    def jerk(method):
        return measure.summary(at_four_ticks[method])

    assert jerk(name)["boundary_jerk"] <= 1.02 * jerk("replace")["boundary_jerk"]
    assert jerk(name)["interior_jerk"] <= 1.02 * jerk("replace")["interior_jerk"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rtc_identity", "rtc_overlap", "seam"])
def test_guidance_takes_a_quarter_off_the_boundary_jerk(at_four_ticks, name):
    guided, plain = (measure.summary(at_four_ticks[n]) for n in (name, "replace"))
    assert guided["boundary_jerk"] <= 0.75 * plain["boundary_jerk"]
    if name != "rtc_overlap":  # whose chunks are smoother still inside
        assert guided["jerk_ratio"] < plain["jerk_ratio"]


@pytest.mark.slow
def test_success_holds_at_four_ticks_and_stop_and_think_loses_the_block(at_four_ticks):
    rows = at_four_ticks
    assert total(rows["no delay"], "success") == len(SEEDS)
    assert total(rows["rtc_identity"], "success") == len(SEEDS)
    assert total(rows["synchronous"], "success") <= len(SEEDS) // 2
    for name in ("replace", "rtc_identity", "seam"):
        assert total(rows[name], "starved") == 0
