# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Makes ``fuzzing`` importable, and the memory that a test took visible."""

import resource
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
MOST_MEMORY = 1 << 30
"""Bytes by which one test may raise the process's peak; a few bytes of input stand for any size."""


@pytest.fixture(autouse=True)
def bounded_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < MOST_MEMORY, f"this test took {grown >> 20} MB more than any before it"
