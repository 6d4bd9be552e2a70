# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Measuring operators leaves the device as it was."""

import gc
import threading

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


def test_another_thread_may_allocate_meanwhile():
    x, taken = torch.randn(64, 64, device="cuda"), []

    def allocate():  # more than is cached, so that the driver is asked
        size = torch.cuda.memory_reserved() + (64 << 20)
        taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))

    def candidate(_):
        if torch.cuda.is_current_stream_capturing() and not taken:
            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
        return x @ x

    assert tune.seconds(candidate, 1) > 0
    assert len(taken) == 1


def test_the_first_error_of_a_spoilt_capture_is_raised():
    x = torch.randn(64, 64, device="cuda")

    def candidate(_):
        try:
            x.sum().item()
        except RuntimeError:
            raise ValueError("what was wrong") from None

    with pytest.raises(ValueError, match="what was wrong"):
        tune.seconds(candidate, 1)
    assert tune.seconds(lambda _: x @ x, 1) > 0
