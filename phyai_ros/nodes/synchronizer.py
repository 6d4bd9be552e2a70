# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""message_filters' ApproximateTimeSynchronizer in front of the aligner, for those who rely on it.

Its callback runs under the filter's lock, and one that raises leaves that lock held for ever; so it
only hands images over and reports what it could not use.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Sequence
from typing import Any

from sensor_msgs.msg import CompressedImage, Image

from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.diagnostics import ERROR, OK, EdgeLog, Status
from phyai_ros.nodes.refusals import Refusals
from phyai_ros.nodes.sensors import CameraTopic, FrameSource, deliver_image

QUEUE = 10
"""Messages kept of each camera. One is not enough when cameras arrive at different delays."""


class SynchronizedCameras:
    """Takes Cameras' place. slop: seconds, the robot's max_skew."""

    def __init__(
        self,
        node: Any,
        cameras: Sequence[CameraTopic],
        source: FrameSource,
        log: EdgeLog,
        slop: float,
    ) -> None:
        self._filters = _message_filters()
        self._cameras = tuple(cameras)
        self._source = source
        self._refusals = {camera.role: Refusals(log, camera.topic) for camera in cameras}
        self._node = node
        self._slop = slop
        self._sets, self._last = 0, math.nan
        self._stale_after = max((camera.stale_after for camera in cameras), default=math.inf)
        self._subscribers: list[Any] = []
        self.clear()

    def clear(self) -> None:
        """Begin anew: stamps that lie in the future after time went back would fill the filter's
        queues, and it would never find a set again."""
        self.destroy()
        self._subscribers = [
            self._filters.Subscriber(
                self._node,
                CompressedImage if camera.compressed else Image,
                camera.topic,
                qos_profile=qos.camera(),
            )
            for camera in self._cameras
        ]
        # The filter compares with <, and whole nanoseconds tell slop apart from just above it.
        self._filter = self._filters.ApproximateTimeSynchronizer(
            self._subscribers, QUEUE, self._slop + 1e-9
        )
        self._filter.registerCallback(self.deliver)

    def deliver(self, *messages: Any) -> None:
        """One set of images, in the cameras' order. Never raises."""
        self._sets, self._last = self._sets + 1, time.monotonic()
        for camera, message in zip(self._cameras, messages, strict=False):
            refusals = self._refusals[camera.role]
            try:
                read = (
                    convert.compressed_from_message
                    if camera.compressed
                    else convert.image_from_message
                )
                deliver_image(self._source, camera, read(message))
            except ValueError as error:
                refusals.refuse(type(error).__name__, str(error))
            except Exception as error:
                refusals.refuse(type(error).__name__, traceback.format_exc(), error=True)
            else:
                refusals.good()

    def statuses(self) -> list[Status]:
        absent = [c.topic for c in self._cameras if not self._node.count_publishers(c.topic)]
        troubles = [f"no publisher on {', '.join(absent)}"] if absent else []
        if not absent and not self._sets:
            troubles.append(f"no set of {len(self._cameras)} images has matched yet")
        age = time.monotonic() - self._last
        if age > self._stale_after:
            troubles.append(f"no set of images for {age:.1f} s")
        refused = {role: r.trouble.lately for role, r in self._refusals.items()}
        troubles += [f"{role} refused: {text}" for role, text in refused.items() if text]

        def told() -> None:
            for role, text in refused.items():
                self._refusals[role].trouble.told(text)

        counts = {f"{role} refused": r.counts for role, r in self._refusals.items()}
        return [
            Status(
                "cameras (message_filters)",
                ERROR if troubles else OK,
                "; ".join(troubles) or "ok",
                {"sets": self._sets, "age": age, **counts},
                told,
            )
        ]

    def destroy(self) -> None:
        for subscriber in self._subscribers:
            self._node.destroy_subscription(subscriber.sub)
        self._subscribers = []


def _message_filters() -> Any:
    try:
        import message_filters
    except ImportError:
        raise ValueError(
            "synchronizer 'message_filters' needs the ROS package message_filters, which is not "
            "installed (apt install ros-$ROS_DISTRO-message-filters); allowed: 'aligner' needs "
            "nothing"
        ) from None
    return message_filters
