# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The engine's thread: newest request in, one chunk out, and a name for everything that fails."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from phyai_ros.control.align import Frame, NotReady
from phyai_ros.control.chunk import Chunk
from phyai_ros.control.states import Request
from phyai_ros.nodes.diagnostics import Reasons, Window
from phyai_ros.nodes.lingering import Lingering
from phyai_ros.nodes.sensors import FrameSource
from phyai_ros.nodes.slot import Slot


@dataclass(frozen=True)
class Answer:
    """A chunk on its way out. stages: seconds by stage, all but ``deliver``."""

    chunk: Chunk
    stages: Mapping[str, float]


Infer = Callable[[Frame, Request], tuple[Chunk, Mapping[str, float]]]
"""Frame and request -> the chunk that answers it, the engine's stages."""


class InferenceLoop:
    """One thread, a depth-1 slot of requests: a newer request replaces one that still waits.

    timeout: seconds to wait for an observation that may answer. publish and on_change are called
    on this thread; on_change after every request whose outcome differs from the one before.
    """

    def __init__(
        self,
        source: FrameSource,
        infer: Infer,
        publish: Callable[[Answer], None],
        on_change: Callable[[], None],
        timeout: float,
    ) -> None:
        self.slot: Slot[Request] = Slot()
        self.latency, self.wait = Window(), Window()
        self.stages: Mapping[str, float] = {}
        self.answered = 0
        self.dropped = Reasons()
        self.trouble: str | None = None
        """Why the newest request has no answer; None when it has."""
        self.troubles = Lingering()
        """The same for diagnostics, where the next answer shall not hide it."""
        self.traceback: str | None = None
        self._began: float | None = None
        self._source = source
        self._infer = infer
        self._publish = publish
        self._on_change = on_change
        self._timeout = timeout
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="phyai_engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def under_way(self, now: float) -> float:
        """Seconds for which the request has been waited for and answered that is being answered
        now, 0 where none is. now: steady seconds."""
        began = self._began
        return 0.0 if began is None else now - began

    def submit(self, request: Request) -> None:
        self.slot.put(request)
        self._source.interrupt()  # a wait for an observation for an older request ends

    def stop(self, patience: float = 1.5) -> bool:
        """Ask the thread to end; False if an inference keeps it longer than ``patience`` s."""
        self._stop = True
        self.slot.close()
        self._source.interrupt()
        if self._thread.is_alive():
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (request := self.slot.take()) is not None:
            self._began = time.monotonic()
            trouble = self._answer(request)
            self._began = None
            if self._stop:
                return
            if trouble != self.trouble:
                self.trouble = trouble
                self.troubles.set(trouble)
                self._on_change()

    def _superseded(self) -> bool:
        return self._stop or self.slot.waiting

    def _answer(self, request: Request) -> str | None:
        """Answer one request; why there is no answer, for people, or None."""
        began = time.monotonic()
        try:
            frame = self._source.wait_frame(request.not_before, self._timeout, self._superseded)
            started = time.perf_counter()
            chunk, stages = self._infer(frame, request)
            stages = {"wait": frame.wait, **stages}
            if self._stop:  # where it would go may by now belong to a later activation
                self.dropped.add("stopped")
                return None
            self._publish(Answer(chunk, stages))
        except NotReady as refusal:
            waited = time.monotonic() - began
            if self._superseded():
                self.dropped.add("superseded")
                # Who repeats a request just before its time is over must not hide the reason.
                if waited < 0.5 * self._timeout:
                    return self.trouble
            else:
                self.dropped.add(f"{refusal.reason.value} {refusal.stream}")
            return f"no observation that may answer: {refusal}"
        except ValueError as error:
            self.dropped.add(type(error).__name__)
            return str(error)
        except Exception as error:
            self.dropped.add(type(error).__name__)
            self.traceback = traceback.format_exc()
            return f"{type(error).__name__}: {error}"
        self.latency.add(time.perf_counter() - started)
        self.wait.add(frame.wait)
        self.stages = stages
        self.answered += 1
        return None
