# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The noise a request's denoising starts from: a function of seed and request, of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def request_noise(seed: int, request_id: int, shape: Sequence[int]) -> np.ndarray:
    """Standard normal float32 of ``shape``, the same for the same (seed, request_id) whatever was
    drawn before it, so that any one request can be answered again. Both are taken modulo 2^64.

    Source: Philox 4x64 (Salmon et al., SC 2011), a counter-based generator made for such keys.
    """
    word = 0xFFFF_FFFF_FFFF_FFFF
    key = np.array([seed & word, request_id & word], np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key))
    return generator.standard_normal(tuple(shape), dtype=np.float32)
