# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import pytest

from phyai_ros import robots
from phyai_ros.nodes.handoff_parameters import control_rate
from phyai_ros.nodes.params import ParameterError

UR10E = robots.load("ur10e")


def test_the_rate_is_as_asked_or_the_robots_own():
    assert control_rate(100.0, UR10E) == 100.0
    assert control_rate(0.0, UR10E) == UR10E.control_rate


def test_a_rate_too_low_is_refused_by_the_name_of_whoever_set_it():
    with pytest.raises(ParameterError, match=r"parameter 'rate' is 1 Hz; expected at least 2 Hz"):
        control_rate(1.0, UR10E)
    slow = UR10E.model_copy(update={"control_rate": 0.5})
    with pytest.raises(ParameterError, match=r"ur10e.*control_rate is 0\.5 Hz"):
        control_rate(0.0, slow)
