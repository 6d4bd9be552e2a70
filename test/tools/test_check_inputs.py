# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ``phyai-ros check`` makes up lies where the checkpoint's own normalisation expects it."""

import numpy as np
import pytest

from phyai_ros.engine import normalize
from phyai_ros.engine.types import FeatureSpec, PolicySpec
from phyai_ros.tools import check_inputs

# Column 1 never varied, and each pair of statistics puts it elsewhere.
STATISTICS = {
    "mean": np.array([1.0, 5.0], np.float32), "std": np.array([0.5, 0.0], np.float32),
    "min": np.array([0.0, 3.0], np.float32), "max": np.array([3.0, 3.0], np.float32),
    "q01": np.array([0.1, 2.0], np.float32), "q99": np.array([2.5, 2.0], np.float32),
    "q10": np.array([0.3, 1.0], np.float32), "q90": np.array([2.0, 1.0], np.float32),
}  # fmt: skip


def spec(mode: str, history: int = 0) -> PolicySpec:
    state = FeatureSpec("observation.state", 2, mode, False, STATISTICS)
    return PolicySpec("act", "", (), (), (state,), (state,), 4, 1, 2, history=history)


@pytest.mark.parametrize("mode", ["MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10"])
def test_a_column_that_never_varied_does_not_drown_the_others(mode):
    normaliser = normalize.lerobot(mode, STATISTICS, "test")
    for observation in check_inputs.observations(spec(mode), 5):
        found = normaliser.normalise(observation.state.astype(np.float32))
        assert np.abs(found).max() <= 1.0


@pytest.mark.parametrize("mode", ["IDENTITY", "quantiles", "min_max"])
def test_other_ecosystems_modes(mode):
    for observation in check_inputs.observations(spec(mode), 5):
        assert 0 <= observation.state[0] <= 3


def test_earlier_moments_have_states_of_their_own():
    """A policy without cameras has no other history to look at."""
    (observation,) = check_inputs.observations(spec("MIN_MAX", history=2), 1)
    states = [moment.state[0] for moment in (*observation.history, observation)]
    assert len(set(states)) == 3
