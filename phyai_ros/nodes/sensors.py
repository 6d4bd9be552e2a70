# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Camera and joint topics -> the aligner, and a place to wait for the next frame."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sensor_msgs.msg import CompressedImage, Image, JointState

from phyai_ros.control.align import Frame, NotReady, ObservationAligner
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.convert import ImageSample, MessageError
from phyai_ros.nodes.diagnostics import EdgeLog, Status
from phyai_ros.nodes.streams import Stream

STALE_AFTER = 1.0
"""Seconds of silence on a sensor topic that diagnostics mention."""


@dataclass(frozen=True)
class CameraTopic:
    """role: the camera's name in the robot description. size: (height, width) and encoding it must
    have, None for any. A topic whose last name is ``compressed`` carries CompressedImage."""

    role: str
    topic: str
    size: tuple[int, int] | None = None
    encoding: str | None = None

    @property
    def compressed(self) -> bool:
        return self.topic.rsplit("/", 1)[-1] == "compressed"


class FrameSource:
    """The aligner with a bell: whoever adds a sample rings, whoever waits for a frame hears it.

    now: seconds, the clock that stamps the messages.
    """

    def __init__(self, aligner: ObservationAligner, now: Callable[[], float]) -> None:
        self.aligner = aligner
        self.now = now
        self._bell = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        with self._bell:
            self._rings += 1
            self._bell.notify_all()

    def clear(self) -> None:
        """Forget every sample: the clock jumped."""
        self.aligner.clear()
        self.ring()

    def wait_frame(
        self, not_before: float | None, timeout: float, cancelled: Callable[[], bool]
    ) -> Frame:
        """The newest frame that is not older than ``not_before``, waiting at most ``timeout``
        seconds for one. Raises the newest NotReady when none came or ``cancelled()`` turned true
        (looked at whenever a sample comes or ``ring`` is called)."""
        deadline = time.monotonic() + timeout
        while True:
            with self._bell:
                heard = self._rings
            try:
                return self.aligner.assemble(self.now(), not_before)
            except NotReady:
                if cancelled() or time.monotonic() >= deadline:
                    raise
            with self._bell:
                if self._rings == heard:
                    self._bell.wait(max(0.0, deadline - time.monotonic()))


class Cameras:
    """One raw subscription a camera; pixels are views of the serialised message."""

    def __init__(
        self, node: Any, cameras: Sequence[CameraTopic], source: FrameSource, log: EdgeLog
    ) -> None:
        self._source = source
        self.streams = [self._stream(node, camera, log) for camera in cameras]

    def _stream(self, node: Any, camera: CameraTopic, log: EdgeLog) -> Stream:
        read = convert.compressed_from_raw if camera.compressed else convert.image_from_raw
        return Stream(
            node,
            f"camera {camera.role}",
            CompressedImage if camera.compressed else Image,
            camera.topic,
            qos.camera(),
            lambda raw: deliver_image(self._source, camera, read(raw)),
            log,
            raw=True,
            stale_after=STALE_AFTER,
        )

    def statuses(self) -> list[Status]:
        return [stream.status() for stream in self.streams]

    def destroy(self) -> None:
        for stream in self.streams:
            stream.destroy()


def deliver_image(source: FrameSource, camera: CameraTopic, sample: ImageSample) -> None:
    """Check an image's size and hand it to the aligner; raises MessageError."""
    if camera.encoding is not None and sample.encoding != camera.encoding:
        raise MessageError(
            f"image is {sample.encoding}, the robot description says camera '{camera.role}' "
            f"sends {camera.encoding}"
        )
    size = sample.pixels.shape[:2]
    if camera.size is not None and size != camera.size:
        raise MessageError(
            f"image is {size[1]}x{size[0]}, the robot description says camera '{camera.role}' "
            f"is {camera.size[1]}x{camera.size[0]}"
        )
    source.aligner.add_image(camera.role, sample.stamp, sample.pixels, source.now())
    source.ring()


class Joints:
    """One subscription a joint topic; each publisher may bring any part of the joints."""

    def __init__(self, node: Any, topics: Sequence[str], source: FrameSource, log: EdgeLog) -> None:
        self._source = source
        self.streams = [self._stream(node, topic, log) for topic in topics]

    def _stream(self, node: Any, topic: str, log: EdgeLog) -> Stream:
        return Stream(
            node,
            f"joint states {topic}",
            JointState,
            topic,
            qos.joint_states(),
            lambda message: self._deliver(topic, message),
            log,
            stale_after=STALE_AFTER,
        )

    def _deliver(self, topic: str, message: JointState) -> None:
        sample = convert.joints_from_message(message)
        self._source.aligner.add_joints(topic, sample.stamp, sample.positions, self._source.now())
        self._source.ring()

    def statuses(self) -> list[Status]:
        return [stream.status() for stream in self.streams]

    def destroy(self) -> None:
        for stream in self.streams:
            stream.destroy()
