# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Measuring operators leaves the device as it was."""

import gc

import pytest
import torch

from phyai_ros.engine.layers import tune

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_measuring_takes_no_memory_for_good():
    x = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    assert tune.seconds(lambda _: x @ x, 1) > 0
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(8):
        tune.seconds(lambda _: x @ x, 1)
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_one_that_cannot_be_captured_does_not_spoil_the_next():
    x = torch.randn(64, 64, device="cuda")
    with pytest.raises(RuntimeError):
        tune.seconds(lambda _: x.sum().item(), 1)
    torch.cuda.synchronize()
    assert tune.seconds(lambda _: x @ x, 1) > 0
    assert torch.allclose(x + 0, x)
