# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A depth-1 mailbox between threads: the newest item wins."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """Holds at most one item. ``replaced`` counts items that a newer one pushed out unread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._item: T | None = None
        self._closed = False
        self.replaced = 0

    def put(self, item: T) -> None:
        with self._condition:
            if self._item is not None:
                self.replaced += 1
            self._item = item
            self._condition.notify_all()

    def take(self) -> T | None:
        """Wait for an item; None once the slot is closed."""
        with self._condition:
            while self._item is None and not self._closed:
                self._condition.wait()
            item, self._item = self._item, None
            return None if self._closed else item

    @property
    def waiting(self) -> bool:
        """Whether an item waits to be taken."""
        return self._item is not None

    def clear(self) -> None:
        with self._condition:
            self._item = None

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
