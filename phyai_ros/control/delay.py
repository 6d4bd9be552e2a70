# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How long an answer takes, counted in ticks."""

from __future__ import annotations

from collections import deque

import numpy as np


class DelayEstimator:
    """Maximum over a bounded window of measured delays, ticks, the first ones left out.

    The window forgets: one slow answer counts for ``window`` chunks and no longer. ``warm_up``
    answers at the start (a cold cache, a compiler) never count.
    """

    def __init__(self, window: int = 10, warm_up: int = 1) -> None:
        if window < 1 or warm_up < 0:
            raise ValueError(f"expected window >= 1 and warm_up >= 0, found {window}, {warm_up}")
        self._delays: deque[int] = deque(maxlen=window)
        self._skip = warm_up

    def add(self, ticks: int) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._delays.append(max(0, int(ticks)))

    @property
    def ready(self) -> bool:
        return bool(self._delays)

    @property
    def maximum(self) -> int | None:
        """None until an answer counted."""
        return max(self._delays) if self._delays else None

    def quantile(self, q: float) -> float | None:
        """q in [0, 1] over the window, None until an answer counted."""
        return float(np.quantile(self._delays, q)) if self._delays else None

    @property
    def samples(self) -> tuple[int, ...]:
        return tuple(self._delays)
