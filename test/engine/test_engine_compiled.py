# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The reference path as torch.compile sees it, stage by stage and step by step, is the same."""

import sys
from pathlib import Path

import other_sizes
import pytest
import torch
from test_other_sizes import noise, observations

from phyai_ros.engine.policy import load_policy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from engine_compiled import Compiled


@pytest.mark.parametrize("layout", ["pi0", "pi05", "smolvla", "gr00t_n17"])
def test_a_compiled_model_answers_alike(layout, tmp_path):
    other_sizes.LAYOUTS[layout](tmp_path)
    policy = load_policy(tmp_path, selector="reference")
    seen, x = observations(policy.spec, 1), noise(policy, 1)
    expected = policy.infer_batch(seen, x)[0].normalised
    adapter = policy.adapter
    compiled = Compiled(adapter, backend="eager")
    with torch.no_grad():
        request = (adapter.prepare(seen), x, None)
        found, again = (compiled(request)[0].numpy() for _ in range(2))
    assert (found == again).all()
    horizon, width = expected.shape
    assert abs(found[:horizon, :width] - expected).max() < 1e-5 * abs(expected).max()
