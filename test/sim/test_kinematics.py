# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from phyai_ros.sim import kinematics as kin


def test_tool_down_inverts_forward():
    rng = np.random.default_rng(0)
    points = rng.uniform([0.4, -0.4, 0.05], [0.9, 0.4, 0.5], size=(500, 3))
    q = kin.tool_down(points, 0.3)
    tip, direction = kin.tool(q)
    np.testing.assert_allclose(tip, points, atol=1e-12)
    np.testing.assert_allclose(direction, np.broadcast_to([0, 0, -1.0], tip.shape), atol=1e-12)


def test_solution_is_the_one_of_the_ready_pose():
    tip, _ = kin.tool(kin.HOME)
    np.testing.assert_allclose(kin.tool_down(tip), kin.HOME, atol=1e-12)


def test_solution_is_continuous_over_the_table():
    grid = np.stack(np.meshgrid(np.linspace(0.4, 0.9, 60), np.linspace(-0.4, 0.4, 60)), axis=-1)
    q = kin.tool_down(np.concatenate([grid, np.full((60, 60, 1), 0.1)], axis=-1))
    assert np.abs(np.diff(q, axis=0)).max() < 0.1
    assert np.abs(np.diff(q, axis=1)).max() < 0.1


@pytest.mark.parametrize("point", [[0.05, 0.0, 0.2], [2.0, 0.0, 0.2]])
def test_unreachable_point_is_named(point):
    with pytest.raises(kin.UnreachableError, match=str(point[0])):
        kin.tool_down(np.array(point))
    with pytest.raises(kin.UnreachableError, match=str(point[0])):
        kin.tool_down(np.array([[0.6, 0.0, 0.2], point]))
