# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""overlay_node: the cameras' pictures with the plan drawn in, for people. Nobody needs it to run.

It only listens to what the other nodes say, at a rate of its own, on less processor priority than
they have; a camera's pictures are asked for only while somebody looks at the result.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState

from phyai_ros import robots
from phyai_ros.control.states import State
from phyai_ros.msg import ActionChunk, HandoffState
from phyai_ros.nodes import convert, diagnostics, lifecycle, params, qos
from phyai_ros.nodes.camera_messages import rgb_image
from phyai_ros.nodes.clock import steady_timer
from phyai_ros.nodes.convert import ImageSample, MessageError
from phyai_ros.nodes.diagnostics import OK, WARN, Status
from phyai_ros.nodes.frame_source import CameraTopic
from phyai_ros.nodes.joint_buffer import JointBuffer
from phyai_ros.nodes.overlay_camera import PinholeCamera, camera_from_info
from phyai_ros.nodes.overlay_picture import draw
from phyai_ros.nodes.overlay_plan import Recent, Tick
from phyai_ros.nodes.params import Parameter
from phyai_ros.nodes.streams import Stream
from phyai_ros.nodes.topics import OVERLAY, info_topic
from phyai_ros.robots.geometry import Geometry
from phyai_ros.robots.robot import Robot

PARAMETERS = (
    params.AUTOSTART,
    Parameter("robot", "ur10e", "robot description: a name in config/robots or a YAML file"),
    Parameter("rate", 5.0, "pictures a second and camera, at most", low=0.1, high=60.0),
    Parameter("scale", 2, "times the camera's width and height", low=1, high=4),
)
_NICE = 10


@dataclass
class _View:
    """One camera. pending: a picture that waits for the joints of its moment."""

    topic: CameraTopic
    publisher: Any
    images: Stream | None = None
    camera: PinholeCamera | None = None
    pending: ImageSample | None = None
    due: float = 0.0
    drawn: int = 0
    trouble: str | None = None


class OverlayNode(lifecycle.ManagedNode):
    """See the module."""

    PARAMETERS = PARAMETERS

    def __init__(self, **kwargs: Any) -> None:
        self._publishers: list[Any] = []
        self._active: list[Callable[[], Any]] = []
        self._views: dict[str, _View] = {}
        super().__init__("overlay_node", **kwargs)

    def configure(self) -> None:
        self._settings = params.read(self, self.PARAMETERS)
        self._robot = robots.load(self._settings.robot)
        self._geometry = Geometry(self._robot)
        self._views = {role: self._view(self._robot, role) for role in self._geometry.roles}
        self._recent = Recent(self._robot.joint_names)
        self._joints = JointBuffer(self._robot.joint_names, self._robot.joint_max_age)
        self._log = diagnostics.EdgeLog(self.get_logger())

    def _view(self, robot: Robot, role: str) -> _View:
        publisher = self.create_publisher(Image, f"{OVERLAY}/{role}", qos.overlay())
        self._publishers.append(publisher)
        return _View(CameraTopic(role, robot.cameras[role].topic), publisher)

    def activate(self) -> None:
        self._streams: list[Stream] = []
        for view in self._views.values():
            self._listen(
                f"calibration {view.topic.role}",
                CameraInfo,
                info_topic(view.topic.topic),
                qos.camera(),
                partial(self._on_info, view),
            )
        for topic in self._robot.joint_state_topics:
            on = partial(self._on_joints, topic)
            self._listen("joint states", JointState, topic, qos.joint_states(), on)
        self._listen("chunks", ActionChunk, "phyai/chunk", qos.chunk(), self._on_chunk)
        state = "phyai/handoff_state"
        self._listen("handoff state", HandoffState, state, qos.handoff_state(), self._on_state)
        timer = steady_timer(self, 1.0 / self._settings.rate, self._on_timer)
        self._active.append(lambda: self.destroy_timer(timer))
        publisher = diagnostics.Publisher(self, [self._statuses])
        self._active.append(publisher.destroy)

    def _listen(self, label: str, kind: Any, topic: str, profile: Any, on: Any, **how: Any) -> None:
        stream = Stream(self, label, kind, topic, profile, on, self._log, required=False, **how)
        self._streams.append(stream)
        self._active.append(stream.destroy)

    def deactivate(self) -> None:
        while self._active:
            self._active.pop()()
        for view in self._views.values():
            self._leave(view)

    def teardown(self) -> None:
        self.deactivate()
        while self._publishers:
            self.destroy_publisher(self._publishers.pop())

    def _follow(self, view: _View) -> None:
        """Ask for a camera's pictures, or no longer: a network, or a simulator that draws them, has
        better to do than to bring what nobody sees."""
        looked_at = view.publisher.get_subscription_count() > 0
        if looked_at and view.images is None:
            topic = view.topic
            read = convert.compressed_from_raw if topic.compressed else convert.image_from_raw
            view.images = Stream(
                self,
                f"camera {topic.role}",
                CompressedImage if topic.compressed else Image,
                topic.topic,
                qos.camera(),
                lambda raw: self._on_image(view, raw, read),
                self._log,
                raw=True,
                required=False,
            )
        elif not looked_at:
            self._leave(view)

    @staticmethod
    def _leave(view: _View) -> None:
        if view.images is not None:
            view.images.destroy()
        view.images = view.pending = None

    # -- what comes ------------------------------------------------------------------------------

    def _on_image(self, view: _View, raw: bytes, read: Callable[[bytes], ImageSample]) -> None:
        now = time.monotonic()
        if now < view.due:
            return
        view.due = now + 1.0 / self._settings.rate
        view.pending = read(raw)

    def _on_info(self, view: _View, info: CameraInfo) -> None:
        view.camera = camera_from_info(info, view.topic.topic)

    def _on_joints(self, topic: str, message: JointState) -> None:
        prefix = self._robot.joint_prefixes.get(topic, "")
        sample = convert.joints_from_message(message, prefix)
        now = time.monotonic()
        self._joints.add(sample, now, topic)
        positions = self._joints.positions(now)
        if positions is not None:
            self._recent.add_positions(sample.stamp, positions)

    def _on_chunk(self, message: ActionChunk) -> None:
        self._recent.add_chunk(convert.chunk_from_message(message))

    def _on_state(self, message: HandoffState) -> None:
        stamp = convert.ns_to_seconds(convert.stamp_to_ns(message.header.stamp))
        tick = Tick(State(message.state), message.request_id, message.index, message.remaining)
        self._recent.add_tick(stamp, tick)

    # -- what goes -------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        for role, view in self._views.items():
            self._follow(view)
            sample, view.pending = view.pending, None
            if sample is None:
                continue
            try:
                self._draw(role, view, sample)
                view.trouble = None
            except ValueError as error:
                view.trouble = str(error)
            self._log.set(f"overlay {role}", view.trouble)

    def _draw(self, role: str, view: _View, sample: ImageSample) -> None:
        if view.camera is None:
            raise MessageError(f"nothing has come on {info_topic(view.topic.topic)}")
        height, width = sample.pixels.shape[:2]
        if (width, height) != view.camera.size:
            wanted = "x".join(map(str, view.camera.size))
            raise MessageError(f"image is {width}x{height}, its camera_info is for {wanted}")
        plan = self._recent.at(sample.stamp)
        if plan is None:
            raise MessageError(self._joints.trouble(time.monotonic()) or "no joint position yet")
        scale = self._settings.scale
        picture = draw(sample.pixels, view.camera, role, self._geometry, plan, scale)
        view.publisher.publish(rgb_image(sample.stamp_ns, role, picture))
        view.drawn += 1

    def _statuses(self) -> list[Status]:
        about = [
            Status(
                f"overlay {role}",
                WARN if view.trouble else OK,
                view.trouble or ("nobody looks" if view.images is None else "ok"),
                {"pictures": view.drawn},
            )
            for role, view in self._views.items()
        ]
        images = [view.images for view in self._views.values() if view.images is not None]
        return [*about, *(stream.status() for stream in (*images, *self._streams))]


def main() -> int:
    with contextlib.suppress(OSError):  # a picture may wait, the arm may not
        os.nice(_NICE)
    return lifecycle.run(OverlayNode)


if __name__ == "__main__":
    sys.exit(main())
