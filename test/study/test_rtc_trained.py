# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""rtc_trained in closed loop, with the checkpoint that was trained for it: the moving block, seen
late."""

import pytest

from phyai_ros.engine import embedded
from phyai_ros.study import design, latency, measure
from phyai_ros.study.loop import Condition
from phyai_ros.study.worker import Cell
from phyai_ros.tools import study

SEEDS = range(2_000_000, 2_000_004)


@pytest.fixture(scope="module")
def cell():
    checkpoint = str(embedded.find("pi05_ur10e_rtc_small"))
    made = Cell(design.Setting("ur10e", "pi05", checkpoint, None, "follow", 0.04, False, 10.0))
    yield made
    made.close()


def outcome(cell, handoff, delay):
    condition = Condition(handoff, 8, latency.parse(delay))
    return measure.summary([cell.run(condition, seed) for seed in SEEDS])


def test_the_study_offers_it(cell):
    setting = design.Setting(
        "ur10e", "pi05", "pi05_ur10e_rtc_small", None, "follow", 0.04, False, 9
    )
    assert "rtc_trained" in study._handoffs("all", cell, setting)


@pytest.mark.slow
def test_it_follows_and_joins_chunks_smoothly_where_no_chunk_is_lost(cell):
    trained, plain = outcome(cell, "rtc_trained", "200"), outcome(cell, "replace", "200")
    assert trained["dropped"] == trained["starved_ticks"] == 0
    assert trained["delay_ticks"] == pytest.approx(4.0)
    assert trained["successes"] == len(SEEDS)
    assert trained["boundary_jerk"] <= 0.75 * plain["boundary_jerk"]
    assert trained["interior_jerk"] <= 1.02 * plain["interior_jerk"]


def test_a_chunk_that_comes_later_than_any_training_knew_is_discarded(cell):
    """Ten ticks are more than eight decided rows: nothing of it may be executed."""
    found = outcome(cell, "rtc_trained", "500")
    assert found["dropped"] >= 3 * len(SEEDS)
    assert found["delay_ticks_max"] <= 8
    assert found["starved_ticks"] > 0
