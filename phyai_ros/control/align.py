# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One moment of the robot out of streams that come when they like."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phyai_ros.control.camera_set import CameraSet
from phyai_ros.control.frame import AlignConfig, CameraStream, Frame, NotReady, Reason
from phyai_ros.control.streams import BackInTime, JointBuffer, Stream

__all__ = [
    "AlignConfig",
    "AlignCounters",
    "CameraStream",
    "Frame",
    "NotReady",
    "ObservationAligner",
    "Reason",
]


@dataclass
class AlignCounters:
    frames: int = 0
    time_went_back: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By ``reason:stream``."""
    foreign_joints: Counter[str] = field(default_factory=Counter)
    """Samples of a joint from a second publisher, dropped, by ``joint@source``."""


MOST_NAMES = 128
"""Joint names of a publisher that are remembered for people; one may send ever new ones."""


class ObservationAligner:
    """Buffers per stream, one ``Frame`` on demand. Thread-safe; never waits for anything.

    The anchor is the newest time at which every camera has an image not after it and the set's
    spread is within max_skew. Joints are interpolated to the anchor, each from its own samples, so
    several publishers may each bring some. Time going backwards clears every buffer.
    """

    def __init__(
        self,
        cameras: Sequence[CameraStream],
        joints: Sequence[str],
        config: AlignConfig | None = None,
    ) -> None:
        if not any(not c.optional for c in cameras):
            raise ValueError("cameras: expected at least one that is not optional")
        self.config = config or AlignConfig()
        self.counters = AlignCounters()
        reorder = self.config.reorder
        self._sets = CameraSet(cameras, self.config)
        self._cameras = self._sets.buffers
        speed = self.config.joint_speed
        self._joints = {
            j: JointBuffer(j, self.config.joint_depth, reorder, speed=speed.get(j, math.inf))
            for j in joints
        }
        self._posture: dict[str, float] = {}
        self._sources: dict[str, set[str]] = {}
        self._last_now = -math.inf
        self._lock = threading.Lock()

    def add_image(
        self, camera: str, stamp: float, image: np.ndarray, received: float = math.nan
    ) -> None:
        """image: [height, width, channels], kept by reference: do not write to it afterwards.
        received: seconds, when the message came, for reports."""
        with self._lock:
            buffer = self._cameras.get(camera)
            if buffer is None:
                raise ValueError(f"camera {camera!r}: expected one of {sorted(self._cameras)}")
            try:
                buffer.add(stamp, image, received, self._posture_at(stamp))
            except BackInTime:
                self._went_back()
                buffer.add(stamp, image, received, self._posture_at(stamp))

    def _posture_at(self, stamp: float) -> dict[str, float]:
        """Of the joints known at a time. Where they were long before it says nothing of what a
        picture shows: a robot that was gone may have come back elsewhere."""
        return {
            name: self._posture[name]
            for name, buffer in self._joints.items()
            if buffer.stamps and stamp - buffer.stamps[-1] <= self.config.joint_max_age
        }

    def add_joints(
        self,
        source: str,
        stamp: float,
        positions: Mapping[str, float],
        received: float = math.nan,
    ) -> None:
        """Positions by name, from one publisher (its topic, say). Names not asked for are ignored,
        names left out keep their age. A joint belongs to the publisher that brought it first,
        until that one falls silent for joint_max_age."""
        with self._lock:
            try:
                self._add_joints(source, stamp, positions, received)
            except BackInTime:
                self._went_back()
                self._add_joints(source, stamp, positions, received)

    def _add_joints(
        self, source: str, stamp: float, positions: Mapping[str, float], received: float
    ) -> None:
        brought = self._sources.setdefault(source, set())
        if len(brought) < MOST_NAMES:  # for the refusal's text only: it need not be complete
            brought.update(list(positions)[:MOST_NAMES])
        for name, position in positions.items():
            buffer = self._joints.get(name)
            if buffer is None:
                continue
            foreign = buffer.stamps and buffer.source != source
            if foreign and stamp - buffer.stamps[-1] <= self.config.joint_max_age:
                self.counters.foreign_joints[f"{name}@{source}"] += 1
                continue
            buffer.source = source
            buffer.add(stamp, float(position), received)
            if buffer.samples:
                self._posture[name] = buffer.samples[-1]

    def clear(self) -> None:
        """Forget every sample; counters stay."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        for stream in self._all():
            stream.clear()
        self._posture.clear()
        self._last_now = -math.inf

    def _went_back(self) -> None:
        self.counters.time_went_back += 1
        self._clear()

    def _all(self) -> list[Stream]:
        return [*self._cameras.values(), *self._joints.values()]

    def assemble(self, now: float, not_before: float | None = None) -> Frame:
        """The newest frame. now: seconds of the clock that stamps the messages. not_before: oldest
        image that will do. Raises NotReady, counted by reason and stream."""
        with self._lock:
            if now < self._last_now - self.config.reorder:
                self._went_back()
            self._last_now = now
            try:
                frame = self._assemble(now, not_before)
            except NotReady as refusal:
                self.counters.refused[f"{refusal.reason.value}:{refusal.stream}"] += 1
                raise
            self.counters.frames += 1
            return frame

    def trouble(self, now: float) -> NotReady | None:
        """Why there would be no frame now; None if there would be one. Asking changes nothing."""
        with self._lock:
            try:
                self._assemble(now, None)
            except NotReady as refusal:
                return refusal
            return None

    def _assemble(self, now: float, not_before: float | None) -> Frame:
        chosen = self._sets.newest(now, self._posture)
        stamps = {name: self._cameras[name].stamps[at] for name, at in chosen.items()}
        anchor, oldest = max(stamps.values()), min(stamps.values())
        if not_before is not None and oldest < not_before:
            late = min(stamps, key=stamps.__getitem__)
            raise NotReady(
                Reason.NOT_YET, late, f"newest set has {oldest:.3f}, wanted from {not_before:.3f}"
            )
        ages = {name: now - stamp for name, stamp in stamps.items()}
        joints = {}
        for name, buffer in self._joints.items():
            joints[name] = buffer.at(
                anchor, now, self.config.joint_max_age, self._sources, self.config.future
            )
            ages[name] = now - buffer.stamps[-1]
        return Frame(
            stamp=anchor,
            oldest=oldest,
            images={name: self._cameras[name].samples[at] for name, at in chosen.items()},
            joints=joints,
            ages=ages,
            skew=anchor - oldest,
            wait=now - oldest,
        )

    def ages(self, now: float) -> dict[str, float]:
        """Stream -> seconds since its newest sample; infinity when there is none."""
        with self._lock:
            return {s.name: now - s.stamps[-1] if s.stamps else math.inf for s in self._all()}

    def dropped(self) -> dict[str, Counter[str]]:
        """Stream -> messages dropped by reason."""
        with self._lock:
            return {s.name: Counter(+s.dropped) for s in self._all()}
