# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Whether a delay can be hidden, what to do when not, and the automatic execution horizon."""

import numpy as np
import pytest
from handoff_rig import rig
from hypothesis import given, settings
from hypothesis import strategies as st

from phyai_ros.control import methods, realtime
from phyai_ros.control.states import State


def line(t):
    return np.array([t, -t])


@pytest.mark.parametrize(
    ("delay", "s", "text"),
    [
        (8, 8, ""),
        (9, 8, "set execution_horizon to 7 or less, and since that is less than the delay"),
        (6, 12, "set execution_horizon to 10 or less"),
        (16, 8, "delay exceeds the whole chunk"),
    ],
)
def test_problem_says_what_would_fix_it(delay, s, text):
    found = realtime.problem(delay, 16, s, 0.05)
    assert (text in found) if text else not found
    if "denoising" in found:  # which ACT has none of
        assert "fewer denoising steps (of a policy that takes several)" in found


def test_the_handoff_says_so_while_it_runs():
    assert rig(line, delay=lambda n: 4).run(100).handoff.problem() == ""
    slow = rig(line, delay=lambda n: 10, execution_horizon=8).run(200).handoff.problem()
    assert "inference takes 10 ticks (0.500 s)" in slow
    assert "execution_horizon to 6 or less" in slow


def test_constant_delay_gives_the_least_sustained_horizon():
    assert realtime.auto_horizon([4] * 10, 16) == realtime.AutoHorizon(5, 0.0, True)


def test_a_delay_beyond_half_the_chunk_is_infeasible():
    result = realtime.auto_horizon([9] * 10, 16)
    assert result.starvation == 1.0
    assert not result.feasible


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=20), st.integers(0, 2**31))
def test_predicted_starvation_is_what_a_run_shows(delays, seed):
    """No starved tick predicted with the chosen horizon: none happens, in any order of delays."""
    chosen = realtime.auto_horizon(delays, 16)
    rng = np.random.default_rng(seed)
    run = rig(
        line,
        delay=lambda n: int(rng.choice(delays)),
        execution_horizon=chosen.execution_horizon,
    ).run(300)
    if chosen.starvation == 0.0:
        assert run.handoff.counters.starved_ticks == 0


def test_auto_follows_the_measured_delay():
    run = rig(line, delay=lambda n: 3 if n < 20 else 6, execution_horizon=None).run(400)
    assert run.handoff.execution_ticks == 7
    uses = [c.tick for c in run.commands if c.first_use]
    assert set(np.diff(uses[3:15])) <= {3, 4}
    assert run.handoff.counters.starved_ticks == 0
    assert run.commands[-1].state is State.EXECUTING


def test_a_fixed_lead_is_kept():
    run = rig(line, delay=lambda n: 2, execution_horizon=8, lead=5, margin=0).run(200)
    uses = {c.request_id: c.tick for c in run.commands if c.first_use}
    for before, request in zip(run.requests[3:], run.requests[4:], strict=False):
        if before.request_id in uses:
            assert request.tick - uses[before.request_id] == 3


@pytest.mark.parametrize("bad", [[], [1]])
def test_bad_input_is_named(bad):
    if bad:
        with pytest.raises(ValueError, match="probability"):
            realtime.auto_horizon(bad, 16, bound=0.0)
    else:
        with pytest.raises(ValueError, match="at least one sample"):
            realtime.auto_horizon(bad, 16)


@pytest.mark.parametrize("delay", [0, 2, 4, 8, 16])
@pytest.mark.parametrize("method", ["replace", "blend", "ensemble", "rtc_identity", "seam"])
def test_injected_delays_leave_no_tick_without_an_action(delay, method):
    """H = 32, s = 16: real time up to d = H - s = 16."""
    run = rig(
        line, delay=lambda n: delay, horizon=32, execution_horizon=16, method=methods.make(method)
    ).run(400)
    assert run.handoff.counters.starved_ticks == 0
    assert run.handoff.counters.dropped_chunks == 0
    first = run.states().index("EXECUTING")
    assert set(run.states()[first:]) == {"EXECUTING"}


@pytest.mark.parametrize("delay", [2, 4])
def test_a_fivefold_spike_is_survived_counted_once_and_forgotten(delay):
    """5 d is within the chunk here, so even the spike starves nothing; asking as early as the spike
    needs lasts for one window."""
    run = rig(
        line,
        delay=lambda n: 5 * delay if n == 10 else delay,
        horizon=32,
        execution_horizon=8,
        window=5,
    ).run(600)
    assert run.handoff.counters.late_chunks == 1
    assert run.handoff.counters.starved_ticks == 0
    assert max(r.expected_delay for r in run.requests) == 5 * delay
    assert run.requests[-1].expected_delay == delay


def test_a_spike_beyond_the_chunk_starves_and_recovers():
    run = rig(line, delay=lambda n: 20 if n == 10 else 4, horizon=16, request_timeout=10.0).run(300)
    assert 0 < run.handoff.counters.starved_ticks <= 20
    assert run.commands[-1].state is State.EXECUTING
    spike = next(c for c in run.commands if c.first_use and c.request_id >= 10)
    before = run.commands[spike.tick - 1]
    assert abs(spike.positions[0] - before.positions[0]) <= 0.05 + 1e-9, "no jump after standing"
