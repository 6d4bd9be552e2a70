# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Subscriptions of cameras and joint states -> the aligner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sensor_msgs.msg import CompressedImage, Image, JointState

from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.diagnostics import EdgeLog, Status
from phyai_ros.nodes.frame_source import CameraTopic, FrameSource, deliver_image
from phyai_ros.nodes.streams import Stream

__all__ = ["CameraTopic", "Cameras", "FrameSource", "Joints", "deliver_image"]

STALE_AFTER = 0.5
"""Seconds of silence on a topic of joint states that diagnostics mention."""


class Cameras:
    """One raw subscription a camera; pixels are views of the serialised message, until the source
    keeps them elsewhere."""

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
            stale_after=camera.stale_after,
        )

    def clear(self) -> None:
        """Nothing is kept here; the aligner's samples are FrameSource's to clear."""

    def statuses(self) -> list[Status]:
        return [stream.status() for stream in self.streams]

    def destroy(self) -> None:
        for stream in self.streams:
            stream.destroy()


class Joints:
    """One subscription a joint topic; each publisher may bring any part of the joints. prefixes:
    ``Robot.joint_prefixes``."""

    def __init__(
        self,
        node: Any,
        topics: Sequence[str],
        source: FrameSource,
        log: EdgeLog,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self._source = source
        self._prefixes = dict(prefixes or {})
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
        sample = convert.joints_from_message(message, self._prefixes.get(topic, ""))
        self._source.aligner.add_joints(topic, sample.stamp, sample.positions, self._source.now())
        self._source.ring()

    def statuses(self) -> list[Status]:
        return [stream.status() for stream in self.streams]

    def destroy(self) -> None:
        for stream in self.streams:
            stream.destroy()
