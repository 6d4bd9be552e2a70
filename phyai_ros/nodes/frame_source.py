# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Images and joint states -> the aligner, and a place to wait for the next frame. No rclpy: a
replay feeds the same aligner in the same way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phyai_ros.control.align import AlignConfig, CameraStream, Frame, NotReady, ObservationAligner
from phyai_ros.nodes.convert import ImageSample, MessageError
from phyai_ros.robots.binding import Binding
from phyai_ros.robots.parts import is_compressed
from phyai_ros.robots.robot import Robot

SILENCE = 0.5
"""Seconds; a shorter silence of a camera is not worth a word, whatever its images' greatest age."""


@dataclass(frozen=True)
class CameraTopic:
    """role: the camera's name in the robot description. size: (height, width) and encoding it must
    have, None for any. A topic whose last name is ``compressed`` carries CompressedImage.
    stale_after: seconds of silence that diagnostics mention."""

    role: str
    topic: str
    size: tuple[int, int] | None = None
    encoding: str | None = None
    stale_after: float = 1.0

    @property
    def compressed(self) -> bool:
        return is_compressed(self.topic)


def camera_topics(robot: Robot, binding: Binding) -> list[CameraTopic]:
    """The cameras that a bound policy uses."""
    topics = []
    for role in binding.cameras:
        camera = robot.cameras[role]
        size = camera.size
        for key, bound in binding.roles.items():
            if bound == role:
                size = size or binding.spec.camera_sizes.get(key)
        stale_after = max(SILENCE, camera.max_age)
        topics.append(CameraTopic(role, camera.topic, size, camera.encoding, stale_after))
    return topics


def make_aligner(robot: Robot, binding: Binding, **settings: Any) -> ObservationAligner:
    """The aligner of a bound policy: its cameras, the robot's joints and limits. settings: other
    fields of AlignConfig."""
    cameras = [
        CameraStream(
            role,
            robot.cameras[role].max_age,
            robot.cameras[role].optional and role in binding.optional_cameras,
        )
        for role in binding.cameras
    ]
    own = {
        "joint_max_age": robot.joint_max_age,
        "max_skew": robot.max_skew,
        "joint_speed": {name: joint.velocity for name, joint in robot.joints.items()},
    }
    return ObservationAligner(cameras, robot.joint_names, AlignConfig(**{**own, **settings}))


class _Waiting:
    """Somebody waits for a frame; its outcome so far."""

    def __init__(self, not_before: float | None) -> None:
        self.not_before = not_before
        self.frame: Frame | None = None


class FrameSource:
    """The aligner, and a place to wait for the next frame. One thread may wait at a time.

    The thread that brings the last missing sample assembles the frame: who waits is woken once,
    with the frame, not at every sample that comes meanwhile.
    now: seconds, the clock that stamps the messages. keep: where an image's pixels are put for as
    long as anybody looks at them (``engine.frames.Frames.put``); None leaves them in their message.
    """

    def __init__(
        self,
        aligner: ObservationAligner,
        now: Callable[[], float],
        keep: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.aligner = aligner
        self.now = now
        self.keep = keep or (lambda pixels: pixels)
        self._bell = threading.Condition()
        self._waiting: _Waiting | None = None

    def ring(self) -> None:
        """A sample has come, or something that may end a wait."""
        with self._bell:
            waiting = self._waiting
            if waiting is None:
                return
            try:
                waiting.frame = self.aligner.assemble(self.now(), waiting.not_before)
            except NotReady:
                return
            self._waiting = None
            self._bell.notify_all()

    def interrupt(self) -> None:
        """Have who waits look at its ``cancelled`` now."""
        with self._bell:
            self._bell.notify_all()

    def clear(self) -> None:
        """Forget every sample: the clock jumped."""
        self.aligner.clear()

    def wait_frame(
        self, not_before: float | None, timeout: float, cancelled: Callable[[], bool]
    ) -> Frame:
        """The newest frame that is not older than ``not_before``, waiting at most ``timeout``
        seconds for one. Raises the newest NotReady when none came or ``cancelled()`` turned true
        (looked at now and on every ``interrupt``)."""
        waiting = _Waiting(not_before)
        with self._bell:
            self._waiting = waiting
        self.ring()
        deadline = time.monotonic() + timeout
        with self._bell:
            while waiting.frame is None:
                left = deadline - time.monotonic()
                if left <= 0 or cancelled():
                    self._waiting = None
                    return self.aligner.assemble(self.now(), not_before)
                self._bell.wait(left)
        return waiting.frame


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
    source.aligner.add_image(camera.role, sample.stamp, source.keep(sample.pixels), source.now())
    source.ring()
