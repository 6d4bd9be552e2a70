# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What the dashboard knows. Times are seconds of a steady clock at arrival; messages are only read,
so anything with their fields will do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from phyai_ros.control.states import State
from phyai_ros.engine.types import STAGES
from phyai_ros.nodes.convert import ns_to_seconds, stamp_to_ns

HISTORY = 30.0
"""Seconds shown in the history lines."""


class WatchModel:
    """Newest messages, and the past that percentiles and history lines need."""

    def __init__(self) -> None:
        self.state: Any = None
        self.chunk: Any = None
        self.instruction = ""
        self.requests = 0
        self.chunks = 0
        self.states: deque[tuple[float, State, int]] = deque(maxlen=4096)
        """(arrival, state, ticks left)."""
        self.statuses: dict[str, tuple[float, int, str, dict[str, str]]] = {}
        """Name -> (arrival, level, message, values), of this package's nodes."""
        self._chunk_arrivals: deque[float] = deque(maxlen=64)
        self._stages: deque[dict[str, float]] = deque(maxlen=64)
        self._deliver: deque[float] = deque(maxlen=64)
        self._jitter: deque[float] = deque(maxlen=512)
        self._ticks: deque[tuple[float, int]] = deque(maxlen=64)

    def on_state(self, message: Any, at: float) -> None:
        if self._ticks and message.ticks < self._ticks[-1][1]:
            self._ticks.clear()  # a handoff that was started anew
        if not self._ticks or message.ticks > self._ticks[-1][1]:
            self._ticks.append((ns_to_seconds(stamp_to_ns(message.header.stamp)), message.ticks))
        self.state = message
        self.states.append((at, State(message.state), message.remaining))
        self._jitter.append(abs(message.tick_jitter))
        if not math.isnan(message.deliver):
            self._deliver.append(message.deliver)

    def on_chunk(self, message: Any, at: float) -> None:
        self.chunk = message
        self.chunks += 1
        self._chunk_arrivals.append(at)
        self._stages.append({name: getattr(message.stages, name) for name in STAGES})

    def on_request(self, message: Any, at: float) -> None:
        self.requests += 1
        if message.instruction:
            self.instruction = message.instruction

    def on_instruction(self, message: Any, at: float) -> None:
        self.instruction = message.data

    def on_diagnostics(self, message: Any, at: float) -> None:
        for status in message.status:
            if status.hardware_id == "phyai_ros":
                level = status.level
                number = int.from_bytes(level, "little") if isinstance(level, bytes) else level
                values = {v.key: v.value for v in status.values}
                self.statuses[status.name] = (at, number, status.message, values)

    # -- what is shown -----------------------------------------------------------------------

    @property
    def tick_seconds(self) -> float:
        """Time between two ticks as it is; NaN before two states came."""
        if len(self._ticks) < 2:
            return math.nan
        (began, first), (ended, last) = self._ticks[0], self._ticks[-1]
        return (ended - began) / (last - first)

    @property
    def chunk_ticks(self) -> int:
        """Ticks that the newest chunk lasts; 0 while unknown."""
        if self.chunk is None or not self.tick_seconds > 0:
            return 0
        step = ns_to_seconds(stamp_to_ns(self.chunk.step))
        return round(self.chunk.horizon * max(1, round(step / self.tick_seconds)))

    def silence(self, now: float) -> float:
        """Seconds since the handoff's last word; infinite before the first."""
        return now - self.states[-1][0] if self.states else math.inf

    def chunk_rate(self, now: float) -> float:
        """Chunks a second, over at most the last ten; NaN of fewer than two."""
        recent = [t for t in self._chunk_arrivals if now - t <= 10.0]
        if len(recent) < 2 or recent[-1] == recent[0]:
            return math.nan
        return (len(recent) - 1) / (recent[-1] - recent[0])

    def stages(self) -> dict[str, tuple[float, float]]:
        """Stage -> (newest, median) in seconds, NaN where nothing was measured."""
        found = {}
        for name in STAGES:
            if name == "deliver":
                values: Sequence[float] = self._deliver
            else:
                values = [v for s in self._stages if not math.isnan(v := s[name])]
            found[name] = (values[-1], float(np.median(values))) if values else (math.nan, math.nan)
        return found

    def jitter_p99(self) -> float:
        return float(np.percentile(self._jitter, 99)) if self._jitter else math.nan

    def ages(self) -> dict[str, float]:
        """Stream -> seconds, as policy_node last saw them; the joints as one, the oldest."""
        status = self.statuses.get("policy_node: observation")
        if status is None:
            return {}
        prefix = "policy_node: camera "
        cameras = {name[len(prefix) :] for name in self.statuses if name.startswith(prefix)}
        ages: dict[str, float] = {}
        for key, text in status[3].items():
            if key.startswith("age ") and key.endswith(" s"):
                name = key[len("age ") : -len(" s")]
                name = name if name in cameras else "joints"
                ages[name] = max(ages.get(name, 0.0), float(text))
        return ages

    def troubles(self, now: float) -> list[tuple[int, str, str]]:
        """(level, name, message) of what is not well, the worst first."""
        bad = []
        for name, (at, level, message, _) in self.statuses.items():
            if now - at > 3.0:
                bad.append((2, name.partition(":")[0], f"silent for {now - at:.0f} s"))
            elif level > 0:
                bad.append((level, name, message))
        return sorted(set(bad), key=lambda line: (-line[0], line[1]))
