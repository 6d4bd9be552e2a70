# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Left-over actions as the answering observation sees them."""

import numpy as np
import pytest
from handoff_rig import START, rig

from phyai_ros.control.leftover import seen_from

ROWS = np.arange(10.0)[:, None]


def cut(stamp, chunk_step=0.05, committed=4):
    return seen_from(stamp, chunk_step, ROWS, 100.0, 0.05, committed)


def test_row_zero_is_the_observations_tick():
    result = cut(100.1)
    np.testing.assert_array_equal(result.rows[:, 0], np.arange(2.0, 10.0))
    assert result.committed == 2


def test_at_the_policys_own_step():
    result = cut(100.05, chunk_step=0.1)
    np.testing.assert_array_equal(result.rows[:, 0], [1, 3, 5, 7, 9])
    assert result.committed == 2  # ticks 1 and 3 come before tick 4


def test_never_padded():
    assert cut(99.9).rows.shape == (0, 1)
    assert cut(100.5).rows.shape == (0, 1)
    assert cut(100.45).rows.shape == (1, 1)
    assert cut(100.45).committed == 0
    assert seen_from(1.0, 0.05, np.zeros((0, 7)), 1.0, 0.05, 0).rows.shape == (0, 7)


def test_other_steps_are_refused():
    with pytest.raises(ValueError, match="whole multiple"):
        cut(100.0, chunk_step=0.033)


@pytest.mark.parametrize("back", [0, 1])
def test_rows_of_a_live_request_are_the_commands_of_their_ticks(back):
    """The observation may be some ticks older than the request: commands already sent are there."""
    run = rig(lambda t: np.array([t, -t]), delay=lambda n: 4).run(120)
    for request in run.requests[5:]:
        stamp = START + 0.05 * (request.tick - back)
        result = seen_from(
            stamp, 0.05, request.leftover, request.first_time, request.step, request.committed
        )
        times = stamp - START + 0.05 * np.arange(len(result.rows))
        np.testing.assert_allclose(result.rows[:, 0], times, atol=1e-9)
        assert result.committed == 4 + back
