# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Loading takes the model's own memory and little more: never a second copy of it."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import load
import synthetic_checkpoint

MEBI = synthetic_checkpoint.MEBI
SLACK = 48 * MEBI
"""Tokenizer, the file headers, the allocator's own; far below a second copy of the model."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float32], ids=str)
def test_no_second_copy(tmp_path, stored):
    """As in the file, and cast on the way. The bound of the issue, the largest shard and 1 GB, is
    the benchmark's; at this size it would hide a whole second copy."""
    shard = 96 * MEBI
    synthetic_checkpoint.make(
        "pi05", tmp_path, layers=1, vocabulary=2048, shard=shard, dtype=stored
    )
    found = load.measure(tmp_path)
    assert found.model_bytes > 300 * MEBI
    assert found.peak_bytes > found.model_bytes  # it was watched while it loaded
    assert found.extra_bytes < found.largest + SLACK


def test_a_checkpoint_that_does_not_load_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"config.json: missing"):
        load.measure(tmp_path)
