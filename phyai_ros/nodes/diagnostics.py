# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""/diagnostics and the log lines beside it: numbers go to the topic, changes go to the log."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from phyai_ros.nodes import qos
from phyai_ros.nodes.clock import steady_timer

OK, WARN, ERROR, STALE = (
    DiagnosticStatus.OK,
    DiagnosticStatus.WARN,
    DiagnosticStatus.ERROR,
    DiagnosticStatus.STALE,
)


@dataclass(frozen=True)
class Status:
    """One line of /diagnostics. name: the part, without the node's name. told: called when it is
    published; not every status that is made is."""

    name: str
    level: bytes
    message: str
    values: Mapping[str, Any] = field(default_factory=dict)
    told: Callable[[], None] | None = None


class Window:
    """The last ``size`` values of something, for p50 and p99."""

    def __init__(self, size: int = 512) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        self._values.append(value)

    def percentiles(self) -> tuple[float, float]:
        """(p50, p99); NaN while empty."""
        if not self._values:
            return float("nan"), float("nan")
        # list() first: another thread may append while numpy iterates
        p50, p99 = np.percentile(list(self._values), (50, 99))
        return float(p50), float(p99)

    def __len__(self) -> int:
        return len(self._values)


class Reasons:
    """Counts by reason: what was dropped and why. Written by one thread, read by any."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        self._counts[reason] += 1

    @property
    def total(self) -> int:
        return sum(dict(self._counts).values())

    def __str__(self) -> str:
        counts = dict(self._counts)
        return ", ".join(f"{reason}: {n}" for reason, n in sorted(counts.items())) or "none"

    def as_dict(self) -> dict[str, int]:
        return dict(self._counts)


class EdgeLog:
    """Logs a condition when it changes, not when it lasts: once on, once off."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._active: dict[str, str] = {}

    def set(
        self, key: str, message: str | None, *, error: bool = False, expected: bool = False
    ) -> bool:
        """State of ``key``: a message while the condition holds, None when it does not.
        expected: no cause for a warning, a line for the record.

        Returns whether the condition began, changed or ended.
        """
        before = self._active.get(key)
        if message == before:
            return False
        if message is None:
            del self._active[key]
            self._logger.info(f"{key}: over ({before})")
            return True
        self._active[key] = message
        # rclpy ties a severity to the source line that logs it: a line for each severity
        if error:
            self._logger.error(f"{key}: {message}")
        elif expected:
            self._logger.info(f"{key}: {message}")
        else:
            self._logger.warning(f"{key}: {message}")
        return True


class Publisher:
    """Collects statuses from its sources and publishes them once a second, when told to, and
    between when ``look`` finds that a level has changed. Executor's thread."""

    def __init__(self, node: Any, sources: list[Callable[[], list[Status]]]) -> None:
        self._node = node
        self._sources = sources
        self._levels: dict[str, bytes] = {}
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", qos.diagnostics())
        self._timer = steady_timer(node, 1.0, self.publish)

    def publish(self) -> None:
        self._publish(self._collect())

    def look(self) -> None:
        """A fault shall not wait for the second to be over: call this a few times a second."""
        statuses = self._collect()
        if any(self._levels.get(status.name) != status.level for status in statuses):
            self._publish(statuses)

    def _collect(self) -> list[Status]:
        return [status for source in self._sources for status in source()]

    def _publish(self, statuses: list[Status]) -> None:
        self._levels = {status.name: status.level for status in statuses}
        message = DiagnosticArray()
        message.header.stamp = self._node.get_clock().now().to_msg()
        # One topic for all nodes: two arms are told apart by their namespaces.
        name = f"{self._node.get_namespace().strip('/')}/{self._node.get_name()}".lstrip("/")
        message.status = [_to_message(name, status) for status in statuses]
        self._publisher.publish(message)
        for status in statuses:
            if status.told is not None:
                status.told()

    def destroy(self) -> None:
        self._node.destroy_timer(self._timer)
        self._node.destroy_publisher(self._publisher)


def _to_message(node_name: str, status: Status) -> Any:
    return DiagnosticStatus(
        name=f"{node_name}: {status.name}",
        hardware_id="phyai_ros",
        level=status.level,
        message=status.message,
        values=[KeyValue(key=key, value=_text(value)) for key, value in status.values.items()],
    )


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
