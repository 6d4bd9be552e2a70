# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A bag of a live run, request by request: what the live policy saw, answered again.

What order messages reached the policy in is not what order they reached the recorder in. So each
chunk tells the newest sample of every stream that its observation was made of, and the aligner is
fed exactly up to those.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import numpy as np

from phyai_ros.control.chunk import Chunk, sources
from phyai_ros.control.frame import NotReady
from phyai_ros.control.states import Request
from phyai_ros.replay.events import (
    ChunkCame,
    ImageCame,
    JointsCame,
    Refused,
    RequestCame,
    Timeline,
)
from phyai_ros.replay.feeder import Feeder
from phyai_ros.replay.result import Collector
from phyai_ros.replay.session import Session

PATIENCE = 1.0
"""Seconds of the bag by which a sample may have reached the recorder after the chunk made of it."""
KEPT = 30.0
"""Seconds of the bag for which samples are kept that no chunk was made of."""


class Answers:
    """Fills the collector; ``chunks`` has the replayed ones by (epoch, request id)."""

    def __init__(self, session: Session, timeline: Timeline, collector: Collector) -> None:
        if session.binding.spec.history:
            raise ValueError(
                "this policy looks back at earlier moments, and a bag does not tell at which: "
                "replay it with --requests own"
            )
        self.chunks: dict[tuple[int, int], Chunk] = {}
        self.live_policies: dict[str, int] = {}
        """What the bag's chunks say of the policy that made them -> how many."""
        self._session = session
        self._timeline = timeline
        self._collector = collector
        # What stood still or jumped depends on what came in between; live it was judged already.
        self._feeder = Feeder(session, collector, frozen_after=math.inf, joint_speed={})
        self._requests: dict[tuple[int, int], Request] = {}
        names = [*timeline.cameras, *timeline.joints]
        self._queues: dict[str, deque[ImageCame | JointsCame]] = {n: deque() for n in names}
        self._fed: dict[str, float] = {}

    def run(self) -> None:
        """Raises BagError, and ValueError when the chunks do not say what they were made of."""
        waiting: deque[ChunkCame] = deque()
        for event in self._timeline.events():
            if isinstance(event, ImageCame | JointsCame):
                queue = self._queues[event.topic]
                queue.append(event)
                while queue[0].now < event.now - KEPT:
                    queue.popleft()
            elif isinstance(event, RequestCame):
                self._requests[event.request.epoch, event.request.request_id] = event.request
            elif isinstance(event, ChunkCame):
                made_by = event.chunk.policy
                self.live_policies[made_by] = self.live_policies.get(made_by, 0) + 1
                if not event.chunk.sources:
                    raise ValueError(
                        f"{self._timeline.bag.path}: its chunks do not say what they were made "
                        "of (an older policy_node): replay it with --requests own"
                    )
                waiting.append(event)
            elif isinstance(event, Refused):
                self._collector.refuse(event.topic, event.kind, event.text, event.now)
            while waiting and (
                not self._lacking(waiting[0].chunk) or event.now > waiting[0].now + PATIENCE
            ):
                self._answer(waiting.popleft())
        while waiting:
            self._answer(waiting.popleft())

    # -- samples -----------------------------------------------------------------------------

    def _needed(self, chunk: Chunk) -> dict[str, list[float]]:
        """Topic -> stamps of its samples that the chunk names."""
        roles = {camera.role: topic for topic, camera in self._timeline.cameras.items()}
        needed: dict[str, list[float]] = {}
        for name, stamp in chunk.sources.items():
            if name in roles:
                needed.setdefault(roles[name], []).append(stamp)
            else:
                for topic in self._timeline.joints:
                    if self._brings(topic, name, stamp):
                        needed.setdefault(topic, []).append(stamp)
        return needed

    def _brings(self, topic: str, joint: str, stamp: float) -> bool:
        return any(
            isinstance(e, JointsCame) and e.sample.stamp == stamp and joint in e.sample.positions
            for e in self._queues[topic]
        )

    def _lacking(self, chunk: Chunk) -> dict[str, float]:
        """Camera roles and joints whose sample has not come yet -> its stamp."""
        roles = {camera.role: topic for topic, camera in self._timeline.cameras.items()}
        lacking = {}
        for name, stamp in chunk.sources.items():
            if self._fed.get(name) == stamp:
                continue
            if name in roles:
                found = any(e.sample.stamp == stamp for e in self._queues[roles[name]])
            else:
                found = any(self._brings(t, name, stamp) for t in self._timeline.joints)
            if not found:
                lacking[name] = stamp
        return lacking

    def _feed(self, chunk: Chunk) -> None:
        """Feed every stream up to the samples that the chunk names."""
        for topic, stamps in self._needed(chunk).items():
            queue = self._queues[topic]
            last = max((i for i, e in enumerate(queue) if e.sample.stamp in stamps), default=-1)
            for _ in range(last + 1):
                event = queue.popleft()
                if isinstance(event, ImageCame):
                    self._feeder.image(event)
                else:
                    self._feeder.joints(event)
        self._fed = dict(chunk.sources)

    # -- one chunk ---------------------------------------------------------------------------

    def _answer(self, event: ChunkCame) -> None:
        chunk = event.chunk
        lacking = self._lacking(chunk)
        if lacking:
            told = ", ".join(f"{name} at {stamp:.6f}" for name, stamp in lacking.items())
            self._leave(event, "not_in_bag", next(iter(lacking)), f"the bag lacks {told}")
            return
        self._feed(chunk)
        roles = [camera.role for camera in self._timeline.cameras.values()]
        oldest = min(stamp for name, stamp in chunk.sources.items() if name in roles)
        now = oldest + event.wait if np.isfinite(event.wait) else event.now
        self._feeder.now = now
        try:
            frame = self._feeder.aligner.assemble(now)
        except NotReady as refusal:
            self._leave(event, refusal.reason.value, refusal.stream, str(refusal))
            return
        wrong = _difference(sources(frame), chunk.sources)
        if wrong:
            self._leave(event, "other_observation", wrong, f"{wrong}: another sample than live")
            return
        request = self._requests.get((chunk.epoch, chunk.request_id)) or request_of(chunk)
        try:
            answered = self._session.answering.answer(frame, request, chunk.instruction)
        except ValueError as error:
            self._leave(event, type(error).__name__, "", str(error))
            return
        self.chunks[chunk.epoch, chunk.request_id] = answered.chunk
        self._collector.answer(answered, self._live(chunk, answered.chunk))

    def _live(self, chunk: Chunk, replayed: Chunk) -> np.ndarray | None:
        """What was recorded, in the replay's columns; None where the shapes differ."""
        if set(chunk.joint_names) != set(replayed.joint_names):
            return None
        order = [chunk.joint_names.index(name) for name in replayed.joint_names]
        live = np.asarray(chunk.positions, np.float64)[:, order]
        return live if live.shape == replayed.positions.shape else None

    def _leave(self, event: ChunkCame, reason: str, stream: str, text: str) -> None:
        self._collector.leave(event.chunk.request_id, event.now, reason, stream, text)


def _difference(found: Mapping[str, float], expected: Mapping[str, float]) -> str:
    """The first stream that differs; empty when none does."""
    for name in [*expected, *found]:
        if found.get(name) != expected.get(name):
            return name
    return ""


def request_of(chunk: Chunk) -> Request:
    """A stand-in for a request that was sent before the recording began."""
    return Request(
        request_id=chunk.request_id,
        epoch=chunk.epoch,
        tick=-1,
        not_before=0.0,
        expected_delay=0,
        first_time=chunk.stamp,
        joint_names=chunk.joint_names,
        step=chunk.step,
        leftover=np.zeros((0, len(chunk.joint_names))),
        committed=0,
        instruction=chunk.instruction,
    )
