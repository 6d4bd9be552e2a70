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
    """rand(*shape, dtype, scale): normal numbers, other ones every time, on the module's DEVICE, or
    on the GPU where there is one."""
    seed = secrets.randbits(32)
    print("seed", seed)  # shown when a test fails
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    device = getattr(request.module, "DEVICE", usual)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, dtype=torch.float32, scale=1.0):
        drawn = torch.randn(*shape, generator=generator) * scale
        return drawn.to(dtype).to(device)

    return draw
