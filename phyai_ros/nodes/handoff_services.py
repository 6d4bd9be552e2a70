# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""handoff_node's services: ``~/hold``, ``~/resume``, ``~/reset`` for people, ``~/episode`` for who
draws a simulator's episodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from std_srvs.srv import SetBool, Trigger

from phyai_ros.control.handoff import Handoff
from phyai_ros.control.states import State
from phyai_ros.control.told import HELD
from phyai_ros.nodes.control_loop import ControlLoop
from phyai_ros.nodes.holds import Holds

PATIENCE = 1.0
"""Seconds that the control thread may take to do what was asked."""


class HandoffServices:
    """Each is done by the control thread and answered with the state and epoch that came of it.
    What was answered with no does not happen later; a hold does, as soon as it can. ``~/episode``:
    false when one ends, true when the next begins; no where a person has to look at the arm first.

    running: whether there is a control thread; without one a call is refused, for it would else
    happen at the next activation. on_reset: called before each reset, on the executor's thread.
    """

    def __init__(
        self,
        node: Any,
        loop: ControlLoop,
        holds: Holds,
        handoff: Handoff,
        running: Callable[[], bool],
        on_reset: Callable[[], None],
    ) -> None:
        self._node = node
        self._loop = loop
        self._handoff = handoff
        self._running, self._on_reset = running, on_reset

        def hold(now: float) -> None:
            holds.hold(HELD)

        def end_episode(now: float) -> str:
            return holds.end_episode()

        def episode(request: Any, response: Any) -> Any:
            return self._answer(response, holds.begin_episode if request.data else end_episode)

        works = {"hold": hold, "resume": holds.resume, "reset": holds.reset}
        self._services = [self._serve(name, work) for name, work in works.items()]
        self._services.append(node.create_service(SetBool, "~/episode", episode))

    def _serve(self, name: str, work: Callable[[float], None]) -> Any:
        def answer(request: Any, response: Any) -> Any:
            if name == "reset":
                self._on_reset()
            answered = self._answer(response, work, late=name == "hold")
            if answered.success and name != "hold" and self._handoff.state is not State.FAULT:
                # The state of this moment is often that of coming to rest.
                answered.message += ": the next fresh chunk moves the arm"
            return answered

        return self._node.create_service(Trigger, f"~/{name}", answer)

    def _answer(
        self, response: Any, work: Callable[[float], str | None], *, late: bool = False
    ) -> Any:
        """work: why it was not done, for people; nothing where it was."""
        begun, done, ticked = threading.Lock(), threading.Event(), threading.Event()
        refused: list[str | None] = []

        def action(now: float) -> None:
            if not begun.acquire(blocking=False):
                return  # refused meanwhile: nobody expects it any more
            refused.append(work(now))
            self._loop.after_tick(ticked.set)
            done.set()

        if not self._running():
            response.message = "the control loop is not running: is the node active?"
            return response
        self._loop.post(action)
        if not done.wait(timeout=PATIENCE) and (late or begun.acquire(blocking=False)):
            then = "it holds as soon as it does" if late else "nothing was done"
            response.message = f"the control loop has not run for {PATIENCE:g} s: {then}"
            return response
        if refused[0]:
            response.message = refused[0]
            return response
        # What came of it shows with the tick: at once, but for a robot that runs slowly.
        ticked.wait(timeout=max(3.0 * self._handoff.config.period, 0.2))
        still = "" if ticked.is_set() else " until the next tick"
        response.success = True
        response.message = f"{self._handoff.state.name}{still}, epoch {self._handoff.epoch}"
        return response

    def destroy(self) -> None:
        for service in self._services:
            self._node.destroy_service(service)
