# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A thread that spins an executor, and is asked to stop rather than robbed of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rclpy.executors import Executor, ExternalShutdownException
from rclpy.task import Future


class ExecutorThread:
    """Spins ``executor`` on a daemon thread from construction until ``stop``.

    ``Executor.shutdown`` is not for another thread's use: it destroys the guard condition that the
    spinning thread may be about to wait on, which then now and then dies of an InvalidHandle. So
    the thread is told by a future, leaves the executor, and only then is the executor shut down.

    ended: called on the thread when it leaves, with what ended it: None after ``stop`` or the
    context's shutdown, else the exception. Without it an exception is the thread's own to report.
    """

    def __init__(
        self,
        executor: Executor,
        name: str,
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        self.executor = executor
        self._ended = ended
        self._told: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self.executor.spin_until_future_complete(self._told)
        except ExternalShutdownException:
            pass
        except BaseException as raised:
            if self._ended is None:
                raise
            error = raised
        if self._ended is not None:
            self._ended(error)

    def here(self) -> bool:
        """Whether the caller is on the thread."""
        return threading.current_thread() is self._thread

    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self, timeout: float = 5.0) -> bool:
        """Whether the thread left within ``timeout`` seconds; the executor is shut down if so.

        A callback that does not return keeps it; the executor is left alone then.
        """
        if not self._told.done():
            self._told.set_result(None)
        self._thread.join(timeout)
        if self.alive():
            return False
        self.executor.shutdown()
        return True
