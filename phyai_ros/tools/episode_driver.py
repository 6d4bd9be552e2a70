# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Takes a running simulator and handoff from one episode to the next."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from phyai_ros.nodes import qos
from phyai_ros.tools.recorder import Recorder
from phyai_ros.tools.recording import ACTING, Episode, Frame

KEPT = 8
"""Pictures of an episode that is over."""
_FILMED = 12  # episodes whose pictures are kept, and as many failures besides
_ANSWER = 10.0  # s, a service that is there
_SERVICE = 15.0  # s, a service that is not there (yet)


class DriverError(RuntimeError):
    """A service that is gone or does not answer, or a simulator that refuses; the text says so."""


class EpisodeDriver:
    """The handoff holds -> simulator's reset -> instruction -> the handoff's own reset; the
    recorder's episodes. No person takes part in it, so the handoff says whether it may.

    spin(seconds): runs the node's executor that long or until something came. stopped: why the
    run is over, if it is; a service of a node that is gone is then not waited for.
    """

    def __init__(
        self,
        node: Any,
        recorder: Recorder,
        spin: Callable[[float], None],
        stopped: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._recorder = recorder
        self._spin_only, self._stopped = spin, stopped
        self._episode = node.create_client(SetBool, "handoff_node/episode")
        self._redraw = node.create_client(Trigger, "sim_node/reset")
        self._instruction = node.create_publisher(String, "instruction", qos.instruction())
        self._said = ""
        self._before = 0
        self._drawn: dict[str, Any] | None = None  # of an episode that has not begun yet
        self._taken: dict[str, Any] | None = None  # of one that somebody else has drawn
        self._events: list[dict[str, Any]] = []
        recorder.on_episode = self._events.append

    @property
    def current(self) -> Episode | None:
        episodes = self._recorder.recording.episodes
        return episodes[-1] if episodes and episodes[-1].end is None else None

    @property
    def announced(self) -> bool:
        """Whether the simulator has said which episode it is in."""
        return any(e["event"] == "start" for e in self._events)

    def begin_first(self) -> None:
        """Takes up the episode that the simulator started with; call once ``announced``."""
        newest = max(i for i, e in enumerate(self._events) if e["event"] == "start")
        event = self._events[newest]
        self._events = self._events[newest + 1 :]  # its end may have come already
        self._recorder.on_episode = self._events.append
        self._say(str(event["instruction"]))
        self._begin(event)

    def finished(self) -> bool:
        """Whether the current episode has ended; its outcome and frames are then in the recording.
        One in which somebody else has reset the simulator ends without an outcome, and what they
        have drawn is the next: two that drew against each other would never see an end."""
        episode = self.current
        if episode is None:
            return True
        for event in self._events:
            if event["seed"] == episode.about["seed"]:
                if event["event"] == "end":
                    episode.about = _about(event)
                    episode.end = self._recorder.now()
            elif event["event"] == "start" and episode.end is None:
                episode.end = self._recorder.now()
                self._recorder.recording.redrawn += 1
                self._taken = event
        if episode.end is None:
            return False
        self._events.clear()
        frames = since(self._recorder.take_frames(), self._first_action(episode))
        filmed = sum(bool(e.frames) for e in self._recorder.recording.episodes)
        if filmed < (_FILMED if episode.success else 2 * _FILMED):
            episode.frames = thin(frames)
        return True

    def next(self) -> str:
        """Starts the next episode; call it again where it cannot begin yet: why, for people. Raises
        DriverError."""
        if self._drawn is None:
            if why := self._ask(begins=False):
                return why
            taken, self._taken = self._taken, None
            self._drawn = self._tell(taken or self._draw())
        if why := self._ask(begins=True):
            return why
        event, self._drawn = self._drawn, None
        self._begin(event)
        return ""

    def _draw(self) -> dict[str, Any]:
        self._before = self._epoch()  # the simulator may tell the handoff its new task itself
        answer = self._call(self._redraw, Trigger.Request())
        if not answer.success:
            raise DriverError(f"service {self._redraw.srv_name} refused: {answer.message}")
        event: dict[str, Any] = json.loads(answer.message)
        return event

    def _tell(self, event: dict[str, Any]) -> dict[str, Any]:
        text = str(event["instruction"])
        if text != self._said:
            # The handoff must know the new task before it is released, or the first chunk
            # might still be for the old one; a new instruction raises its epoch.
            self._say(text)
            end = time.monotonic() + 1.0
            while self._epoch() == self._before and time.monotonic() < end:
                self._spin(0.05)
        return event

    def _ask(self, *, begins: bool) -> str:
        """Why the handoff may not end or begin an episode; empty where it has."""
        answer = self._call(self._episode, SetBool.Request(data=begins))
        return "" if answer.success else str(answer.message)

    def _begin(self, event: dict[str, Any]) -> None:
        recorder = self._recorder
        recorder.take_frames()
        recorder.recording.episodes.append(Episode(_about(event), recorder.now()))

    def _say(self, text: str) -> None:
        self._said = text
        self._instruction.publish(String(data=text))

    def _first_action(self, episode: Episode) -> float:
        ticks = self._recorder.recording.ticks
        acting = (t.time for t in ticks if t.time >= episode.start and t.state in ACTING)
        return next(acting, episode.start)

    def _epoch(self) -> int:
        ticks = self._recorder.recording.ticks
        return ticks[-1].epoch if ticks else 0

    def _spin(self, seconds: float) -> None:
        if reason := self._stopped():
            raise DriverError(reason)
        self._spin_only(seconds)

    def _call(self, client: Any, request: Any) -> Any:
        end = time.monotonic() + _SERVICE
        while not client.service_is_ready():
            if time.monotonic() > end:
                raise DriverError(f"service {client.srv_name} is not there: is its node running?")
            self._spin(0.05)
        future = client.call_async(request)
        end = time.monotonic() + _ANSWER
        while not future.done():
            if time.monotonic() > end:
                client.remove_pending_request(future)
                raise DriverError(f"service {client.srv_name} did not answer in {_ANSWER:g} s")
            self._spin(0.05)
        return future.result()


def _about(event: dict[str, Any]) -> dict[str, object]:
    return {k: v for k, v in event.items() if k not in ("event", "time")}


def since(frames: Sequence[Frame], start: float) -> list[Frame]:
    """What was shown from ``start`` on, and the last frame before it."""
    before = [f for f in frames if f.time < start]
    return before[-1:] + [f for f in frames if f.time >= start]


def thin(frames: list[Frame]) -> list[Frame]:
    """At most ``KEPT`` of ``frames``, evenly, the first and the last among them."""
    if len(frames) <= KEPT:
        return frames
    return [frames[round(i * (len(frames) - 1) / (KEPT - 1))] for i in range(KEPT)]
