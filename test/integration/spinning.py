# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A test's own node, spun by a thread, and used by the test's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

PATIENCE = 60.0


class SpinningNode(Node):
    """Spins from its construction until ``close``. What a test makes or destroys of it while it
    spins is made or destroyed by the thread that spins: rclpy guards the entities that its executor
    waits for against no other thread, and an executor that loses one in the middle of a wait ends,
    or waits for ever, now and then."""

    def __init__(self, name: str, context: Context, **settings: Any) -> None:
        self._spinner: threading.Thread | None = None
        super().__init__(name, context=context, **settings)
        self._spinning = SingleThreadedExecutor(context=context)
        self._spinning.add_node(self)
        self._spinner = threading.Thread(target=self._spinning.spin, name=f"spin {name}")
        self._spinner.start()

    def there(self, work: Callable[[], Any]) -> Any:
        """What ``work`` returns or raises on the thread that spins."""
        spinner = self._spinner
        if spinner is None or threading.current_thread() is spinner:
            return work()
        task = self._spinning.create_task(work)
        end = time.monotonic() + PATIENCE
        while not task.done():
            assert spinner.is_alive(), "the executor of the test's node has ended"
            assert time.monotonic() < end, "the executor of the test's node does not come to it"
            time.sleep(0.001)
        return task.result()

    def close(self) -> None:
        spinner, self._spinner = self._spinner, None
        self._spinning.shutdown(timeout_sec=5)
        if spinner is not None:
            spinner.join(5)
        self.destroy_node()


def _marshalled(name: str) -> Callable[..., Any]:
    own = getattr(Node, name)

    def method(self: SpinningNode, *args: Any, **kwargs: Any) -> Any:
        return self.there(lambda: own(self, *args, **kwargs))

    return method


for _kind in ("subscription", "publisher", "client", "service", "timer"):
    for _verb in ("create", "destroy"):
        setattr(SpinningNode, f"{_verb}_{_kind}", _marshalled(f"{_verb}_{_kind}"))
