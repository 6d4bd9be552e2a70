# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The contract of a fault of messages, and the two that fit every stream. Pure."""

from __future__ import annotations

from typing import Protocol

Sent = list[tuple[float, bytes]]
"""(when to send, s; serialised message), in order."""


class Tamper(Protocol):
    """One stream under one fault."""

    def __call__(self, data: bytes, now: float) -> Sent:
        """What becomes of a message that comes ``now`` (s, any clock)."""
        ...


def dropped(data: bytes, now: float) -> Sent:
    """Nothing arrives."""
    return []


class Delayed:
    """Everything arrives, with its stamp, ``seconds`` later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, data: bytes, now: float) -> Sent:
        return [(now + self._seconds, data)]
