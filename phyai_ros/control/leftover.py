# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Left-over actions of a request, seen from the observation that answers it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Leftover:
    """rows: float64 [n, joints], row 0 belongs to the observation's tick, spaced as the chunk's
    rows are. committed: leading rows that are executed whatever the new chunk says. Never padded:
    rows that the old chunk does not have are not here."""

    rows: np.ndarray
    committed: int


def seen_from(
    stamp: float,
    chunk_step: float,
    rows: np.ndarray,
    first_time: float,
    step: float,
    committed: int,
) -> Leftover:
    """Cut a request's left-over actions to an observation and to the policy's own step.

    stamp: seconds, of the observation. chunk_step: seconds between two rows of the policy. rows,
    first_time, step, committed: of the request (control.states.Request, msg/InferenceRequest).
    Empty when the observation is older than the first row: what stood before it is unknown, and
    nothing is made up. Raises ValueError unless chunk_step is a whole multiple of step.
    """
    empty = Leftover(np.zeros((0, rows.shape[1] if rows.ndim == 2 else 0)), 0)
    if not len(rows):
        return empty
    ratio = chunk_step / step if step > 0 and math.isfinite(chunk_step) else 0.0
    times = round(ratio)
    if times < 1 or abs(ratio - times) > 1e-3 * times:
        raise ValueError(
            f"left-over actions are {step:g} s apart, the policy's rows {chunk_step:g} s: "
            f"expected a whole multiple"
        )
    offset = round((stamp - first_time) / step)
    if not 0 <= offset < len(rows):
        return empty
    ahead = -(-max(min(committed, len(rows)) - offset, 0) // times)
    return Leftover(np.array(rows[offset::times]), ahead)
