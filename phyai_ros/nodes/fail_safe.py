# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A control loop in which something raised brings the arm to rest before it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from phyai_ros.control.guard import Guard
from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import State
from phyai_ros.nodes.control_loop import ControlLoop, Sink

PATIENCE = 5.0
"""Seconds until the end comes although the arm, or the clock, did not come to rest."""


class FailSafe:
    """``tick`` in place of the loop's own. When that raises, the handoff faults, nothing posted
    counts any more, and the arm decelerates within its limits, from the last command that was
    sent; once it stands and FAULT was said, ``tick`` raises what the loop had raised. It raises at
    once, with no command sent, where even braking fails.

    on_failure: called at the first exception. Control thread.
    """

    def __init__(
        self,
        loop: ControlLoop,
        handoff: Handoff,
        sink: Sink,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._handoff = handoff
        self._sink = sink
        self._on_failure = on_failure
        self._failure: Exception | None = None
        self._deadline = 0.0

    def tick(self) -> None:
        guard, failed = self._handoff.guard, self._failure
        before, raised = guard.fork(), False
        try:
            self._loop.tick()
        except Exception as error:
            raised = True
            if failed is None:
                self._begin(error)
            if not self._loop.sent:
                self._brake(before)
        if failed is None:
            return
        said = raised or self._handoff.state is State.FAULT
        if (guard.standing and said) or time.monotonic() > self._deadline:
            raise failed

    def _begin(self, error: Exception) -> None:
        self._failure = error
        self._deadline = time.monotonic() + PATIENCE
        self._loop.close()
        self._handoff.fail(f"control loop: {error!r}")
        self._on_failure(error)

    def _brake(self, before: Guard) -> None:
        """This tick's command, by the guard alone. An arm that was let go stays so."""
        guard = self._handoff.guard
        if guard.last is None or before.last is None:
            guard.stop()
            return
        guard.rewind(before)
        self._sink.command(guard.brake())
