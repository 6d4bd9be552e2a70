# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A test's own node, spun by a thread, and used by the test's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from phyai_ros.nodes.executor_thread import ExecutorThread

PATIENCE = 60.0


class SpinningNode(Node):
    """Spins from its construction until ``close``. What a test makes or destroys of it while it
    spins is made or destroyed by the thread that spins: rclpy guards the entities that its executor
    waits for against no other thread, and an executor that loses one in the middle of a wait ends,
    or waits for ever, now and then."""

    def __init__(self, name: str, context: Context, **settings: Any) -> None:
        self._spinning: ExecutorThread | None = None
        super().__init__(name, context=context, **settings)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(self)
        self._spinning = ExecutorThread(executor, f"spin {name}")

    def there(self, work: Callable[[], Any]) -> Any:
        """What ``work`` returns or raises on the thread that spins."""
        spinning = self._spinning
        if spinning is None or spinning.here():
            return work()
        task = spinning.executor.create_task(work)
        end = time.monotonic() + PATIENCE
        while not task.done():
            assert spinning.alive(), "the executor of the test's node has ended"
            assert time.monotonic() < end, "the executor of the test's node does not come to it"
            time.sleep(0.001)
        return task.result()

    def close(self) -> None:
        spinning, self._spinning = self._spinning, None
        if spinning is not None:
            spinning.stop()
        self.destroy_node()


def _marshalled(name: str) -> Callable[..., Any]:
    own = getattr(Node, name)

    def method(self: SpinningNode, *args: Any, **kwargs: Any) -> Any:
        return self.there(lambda: own(self, *args, **kwargs))

    return method


for _kind in ("subscription", "publisher", "client", "service", "timer"):
    for _verb in ("create", "destroy"):
        setattr(SpinningNode, f"{_verb}_{_kind}", _marshalled(f"{_verb}_{_kind}"))
