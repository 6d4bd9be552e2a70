# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""policy_node with the checkpoint that goes on from decided rows, over real DDS: they are in the
chunk as they were asked for, and it says how many."""

from __future__ import annotations

import numpy as np
import pytest
from node_rig import POSTURE
from test_policy_node import Cell, robot_file  # noqa: F401

from phyai_ros.nodes import convert

DOMAIN = 97
STEP = 0.05
NAMES = list(POSTURE)


@pytest.fixture(scope="module")
def cell(robot_file):  # noqa: F811
    cell = Cell(
        robot_file,
        DOMAIN,
        model="pi05",
        checkpoint="pi05_ur10e_rtc_small",
        handoff="rtc_trained",
    )
    yield cell
    cell.close()


def test_without_a_plan_nothing_is_decided(cell):
    assert cell.answer().committed == 0


def test_decided_rows_come_back_and_are_counted(cell):
    free = cell.answer()
    rows = np.array(free.positions).reshape(free.horizon, -1) + 0.01
    for _ in range(20):  # a slow machine may look so late that none of them is left
        now = cell.test.get_clock().now()
        chunk = cell.answer(
            joint_names=NAMES,
            step=free.step,
            first_tick=now.to_msg(),
            leftover=rows.ravel().tolist(),
            committed=8,
        )
        if chunk.committed:
            break
    assert 1 <= chunk.committed <= 8
    seen = convert.stamp_to_ns(chunk.header.stamp) - now.nanoseconds
    offset = round(seen / 1e9 / STEP)
    found = np.array(chunk.positions).reshape(chunk.horizon, -1)
    assert chunk.committed == 8 - offset
    np.testing.assert_allclose(
        found[: chunk.committed], rows[offset : offset + chunk.committed], atol=2e-3
    )
    # It goes on from there: no step that the arm could not take.
    steps = np.abs(np.diff(found[:, :6], axis=0))
    assert steps[chunk.committed - 1].max() < 0.1
