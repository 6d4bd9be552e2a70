# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How near a kernel's result is to its twin's."""

import torch


def check(found, expected, tolerance):
    """Finite, and its relative error in the Euclidean norm below ``tolerance``."""
    assert torch.isfinite(found).all()
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert error < tolerance, f"relative error {error:.2e}"
