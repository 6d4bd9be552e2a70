# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Earlier observations, for policies that look at more than one moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from phyai_ros.control.align import NotReady
from phyai_ros.engine.types import Observation
from phyai_ros.nodes.frame_source import FrameSource
from phyai_ros.robots.binding import Binding


class History:
    """Keeps the moments of the last few control steps; ``record`` is called once a step.

    length: moments wanted besides the request's own; 0 keeps none.
    """

    def __init__(self, binding: Binding, source: FrameSource, length: int) -> None:
        self._binding = binding
        self._source = source
        self._length = length
        # twice the length: a moment is chosen by its stamp, one call a step drifts against it
        self._moments: deque[Observation] = deque(maxlen=2 * length + 1)

    def record(self) -> None:
        try:
            frame = self._source.aligner.assemble(self._source.now())
            moment = self._binding.observation(frame, "")
        except (NotReady, ValueError):
            return  # a request for this moment says why
        if self._moments and frame.stamp < self._moments[-1].stamp:
            self._moments.clear()  # time went back
        self._moments.append(moment)

    def before(self, stamp: float) -> Sequence[Observation]:
        """Oldest first: for each step back from ``stamp`` the nearest moment kept, as far as there
        is one within half a step."""
        moments = list(self._moments)
        chosen: list[Observation] = []
        for back in range(1, self._length + 1):
            wanted = stamp - back * self._binding.step
            near = [m for m in moments if abs(m.stamp - wanted) <= 0.5 * self._binding.step]
            if not near:
                break
            chosen.insert(0, min(near, key=lambda m: abs(m.stamp - wanted)))
        return chosen
