# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Listens to a running graph and fills a Recording. Cheap: it shares two cores with the robot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image
from std_msgs.msg import String

from phyai_ros.control.states import State
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import cdr, images, qos
from phyai_ros.nodes.clock import RosSeconds
from phyai_ros.nodes.message_info import informed, sent
from phyai_ros.nodes.message_types import message_class
from phyai_ros.nodes.outlets import Way
from phyai_ros.nodes.rivals import HEARD
from phyai_ros.tools import incidents, recorded
from phyai_ros.tools.recording import Frame, Recording

FRAME_EVERY = 0.1
"""Least time between two frames that are kept, s; it doubles whenever there are too many."""
_KEPT = 128

RIVAL_AFTER = 8.0
"""s for which a command topic has two publishers before that is not one that was restarted."""


class Recorder:
    """Callbacks of one node, all on its executor's thread.

    cameras: role -> topic. ways: where the commands go. ``recording.frames`` holds what the cameras
    showed since ``take_frames``.
    """

    def __init__(
        self, node: Any, cameras: dict[str, str], ways: Sequence[Way], names: Sequence[str]
    ) -> None:
        self.recording = Recording(
            joint_names=tuple(names),
            commands=[[] for _ in ways],
            ways=tuple(ways),
        )
        self.on_episode: Callable[[dict[str, Any]], None] = lambda event: None
        self.statuses: dict[str, str] = {}
        """Newest message of every diagnostic status, for people."""
        self.levels: dict[str, int] = {}
        self._newest: tuple[int, str] | None = None
        self._shared_since: float | None = None
        clock = node.get_clock()
        self.now = RosSeconds(clock)
        self._simulated: Callable[[], bool] = lambda: clock.ros_time_is_active
        self._raw: dict[str, bytes] = {}
        self._last_frame = 0.0
        self._frame_every = FRAME_EVERY
        listen = node.create_subscription
        listen(HandoffState, "phyai/handoff_state", informed(self._on_state), qos.handoff_state())
        listen(ActionChunk, "phyai/chunk", informed(self._on_chunk), qos.chunk())
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics())
        listen(String, "sim/episode", self._on_episode, qos.episode())
        for way, heard in zip(ways, self.recording.commands, strict=True):
            # The robot's controller wants the newest command only; this listener wants all.
            callback = informed(partial(self._on_command, way, heard))
            with suppress(ValueError):  # not installed: then the handoff node has said so
                listen(message_class(way.type), way.topic, callback, qos.handoff_state())
        self._roles = tuple(cameras)
        for role, topic in cameras.items():
            listen(Image, topic, self._keeper(role), qos.camera(), raw=True)

    def take_frames(self) -> list[Frame]:
        """What the cameras showed since the last call."""
        self._frame_every = FRAME_EVERY
        frames, self.recording.frames = self.recording.frames, []
        return frames

    def _on_state(self, m: HandoffState, info: Mapping[str, int]) -> None:
        self.recording.ticks.append(recorded.tick(m, at := sent(info)))
        if (m.state, m.reason) != self._newest:
            self._newest = m.state, m.reason
            incidents.stands(self.recording, at, State(m.state), m.reason)

    def _on_chunk(self, m: ActionChunk, info: Mapping[str, int]) -> None:
        # Simulated time has no publication time; then the moment of arrival has to do.
        at = self.now() if self._simulated() else sent(info)
        self.recording.chunks.append(recorded.chunk(m, at))

    def _on_command(
        self, way: Way, heard: list[tuple[float, np.ndarray]], m: Any, info: Mapping[str, int]
    ) -> None:
        with suppress(ValueError):  # somebody else's; the nodes say who publishes there
            heard.append((sent(info), way.read(m)))

    def _on_diagnostics(self, m: DiagnosticArray) -> None:
        for status in m.status:
            values = {v.key: v.value for v in status.values}
            self.recording.diagnostics[status.name] = values
            self.statuses[status.name] = status.message
            self.levels[status.name] = int.from_bytes(status.level, "little")
            if status.name == "handoff_node: publishers":
                self._look_for_rivals(values)
            if status.name == "sim_node: pace":
                factor = float(values.get("real-time factor", "nan"))
                if np.isfinite(factor):
                    self.recording.real_time.append(factor)

    def _look_for_rivals(self, counts: Mapping[str, str]) -> None:
        """counts: publishers by topic, as handoff_node sees them, and whom it heard."""
        topics = [way.topic for way in self.recording.ways]
        heard = counts.get(HEARD, "none")
        if heard != "none":
            self.recording.shared = tuple(t for t in topics if t in heard) or tuple(topics)
        shared = [topic for topic in topics if int(counts.get(topic, "0")) > 1]
        now = time.monotonic()
        if not shared:
            self._shared_since = None
        elif self._shared_since is None:
            self._shared_since = now
        elif now - self._shared_since > RIVAL_AFTER:
            self.recording.shared = tuple(shared)

    def _on_episode(self, m: String) -> None:
        self.on_episode(json.loads(m.data))

    def _keeper(self, role: str) -> Callable[[bytes], None]:
        def keep(serialised: bytes) -> None:
            self._raw[role] = serialised
            now = self.now()
            if role == self._roles[-1] and now - self._last_frame >= self._frame_every:
                self._last_frame = now
                self._add_frame(now)

        return keep

    def _add_frame(self, now: float) -> None:
        pictures = {}
        for role, serialised in self._raw.items():
            try:
                raw = cdr.read_image(serialised)
                layout = images.PixelLayout(raw.height, raw.width, raw.encoding, raw.step)
                pictures[role] = images.rgb_view(layout, raw.data)
            except ValueError:
                continue  # the policy node says what is wrong with it; the film does without
        if pictures:
            self.recording.frames.append(Frame(now, pictures))
        if len(self.recording.frames) > _KEPT:
            del self.recording.frames[1::2]
            self._frame_every *= 2
