# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Triton where it is installed. Kernel files import from here, so that their twins work without."""

from __future__ import annotations

import os
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # the twins remain
    triton, tl = None, None


class _NeverError(Exception):
    """Raised by nobody."""


TooLarge: type[Exception] = getattr(triton, "OutOfResources", _NeverError)
"""A kernel asks for more shared memory, registers or threads than the device's blocks have."""
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def jit(function: Any) -> Any:
    return function if triton is None else triton.jit(function)


def unspecialised(*names: str) -> Any:
    """``jit`` that makes one kernel for every value of the arguments named."""
    return lambda f: f if triton is None else triton.jit(f, do_not_specialize=list(names))


def usable(device: torch.device) -> bool:
    """Whether the kernels can run on tensors of this device."""
    if triton is None:
        return False
    return device.type == "cuda" or INTERPRETED


def dependent_launch(device: torch.device) -> bool:
    """Whether a kernel may start before the one in front of it ends (programmatic dependent
    launch): compute capability 9.0 and later."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
