# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Engine tests: one thread (two cores are shared), and ``golden`` importable."""

import secrets
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)


@pytest.fixture
def rand(request):
    """rand(*shape, dtype, scale): normal numbers, other ones every time, on the module's DEVICE."""
    seed = secrets.randbits(32)
    print("seed", seed)  # shown when a test fails
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, dtype=torch.float32, scale=1.0):
        drawn = torch.randn(*shape, generator=generator) * scale
        return drawn.to(dtype).to(request.module.DEVICE)

    return draw
