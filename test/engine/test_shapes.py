# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Modules that a checkpoint will fill are built without drawing values."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from phyai_ros.engine import shapes


def test_a_module_has_its_shapes_and_no_memory():
    with shapes.only():
        module = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 5), nn.Conv2d(1, 2, 3))
    assert all(p.is_meta for p in module.parameters())
    assert module[0].weight.shape == (3, 4)
    assert module[1].bias.shape == (5,)


def test_what_does_hold_values_is_still_filled():
    with shapes.only():
        real = torch.zeros(100, device="cpu").normal_()
        nn.init.uniform_(other := torch.zeros(100, device="cpu"))
    assert real.std() > 0.5
    assert other.std() > 0.1


@pytest.mark.parametrize("checkpoint", ["gr00t_ur10e_small", "pi05_ur10e_small"])
def test_loading_a_policy_does_not_import_torchs_compiler(checkpoint):
    """It takes a second of CPU, of a policy that shall be back in five after a crash."""
    code = (
        "import sys; from phyai_ros.engine.policy import load_policy;"
        f"load_policy({checkpoint!r}).warm_up(); sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
