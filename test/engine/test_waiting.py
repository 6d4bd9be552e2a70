# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Where kernels wait for the end of the one in front."""

from contextlib import suppress

import torch

from phyai_ros.engine.layers import passes
from phyai_ros.engine.layers.operators import Operators
from phyai_ros.engine.layers.passes import Passes


def test_no_kernel_is_early_inside_and_all_are_again_behind(monkeypatch):
    early = []
    monkeypatch.setattr(
        passes.add_norm, "fused", lambda *_, dependent, **__: early.append(dependent)
    )
    ops, x = Passes(), torch.zeros(1)
    ops.dependent = True
    ops.add_norm(x, None)
    with suppress(ValueError), ops.waiting():
        ops.add_norm(x, None)
        raise ValueError
    ops.add_norm(x, None)
    assert early == [True, False, True]


def test_definitions_have_nothing_to_wait_for():
    ops = Operators()
    with ops.waiting():
        assert torch.equal(ops.linear(torch.ones(1, 2), torch.ones(3, 2)), torch.full((1, 3), 2.0))
