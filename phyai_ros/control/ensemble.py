# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""ACT's temporal ensembling (arXiv 2304.13705, section IV): one action from all the chunks that
predicted it."""

from __future__ import annotations

import numpy as np


def temporal_ensemble(predictions: np.ndarray, coefficient: float) -> np.ndarray:
    """predictions [n, dim] of one tick, oldest chunk first -> their mean [dim], weighted by
    exp(-coefficient i), i = 0 for the oldest. A positive coefficient trusts older chunks more."""
    weights = np.exp(-coefficient * np.arange(len(predictions)))
    return np.asarray(weights @ predictions / weights.sum())
