# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""The simulator's cameras: a thread that renders and publishes, so that physics never waits.

An OpenGL context is current in one thread only; this one makes, uses and frees it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sensor_msgs.msg import CameraInfo, Image

from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.camera_messages import pinhole_info, rgb_image
from phyai_ros.nodes.diagnostics import Window
from phyai_ros.nodes.slot import Slot
from phyai_ros.nodes.topics import info_topic
from phyai_ros.robots.robot import Robot
from phyai_ros.sim import cells
from phyai_ros.sim.render import Renderer


@dataclass(frozen=True)
class CameraSettings:
    """topics: camera of the scene -> where its pictures are published."""

    topics: Mapping[str, str]
    width: int
    height: int
    shadows: bool = False
    antialias: bool = False


class Cameras:
    """``shoot`` posts a moment; all cameras that somebody listens to show it under one stamp. A
    newer moment replaces one that waits (``dropped`` counts them)."""

    def __init__(self, node: Any, model: Any, settings: CameraSettings) -> None:
        self.seconds = Window()
        self.published = 0
        self.failure: BaseException | None = None
        self._node = node
        self._model = model
        self._settings = settings
        self._slot: Slot[tuple[int, np.ndarray]] = Slot()
        self._publishers = {
            name: node.create_publisher(Image, topic, qos.camera())
            for name, topic in settings.topics.items()
        }
        self._infos = {
            name: (
                node.create_publisher(CameraInfo, info_topic(topic), qos.camera()),
                pinhole_info(
                    name, settings.width, settings.height, float(model.camera(name).fovy[0])
                ),
            )
            for name, topic in settings.topics.items()
        }
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sim_cameras", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        return self._slot.replaced

    def wait_ready(self) -> None:
        """Returns once pictures can be made; raises what prevents it."""
        self._ready.wait()
        if self.failure is not None:
            raise self.failure

    def shoot(self, stamp_ns: int, positions: np.ndarray) -> None:
        """positions: a copy of the physics' generalised positions at ``stamp_ns``."""
        self._slot.put((stamp_ns, positions))

    def stop(self) -> None:
        self._slot.close()
        self._thread.join()

    def destroy(self) -> None:
        self.stop()
        infos = (publisher for publisher, _ in self._infos.values())
        for publisher in (*self._publishers.values(), *infos):
            self._node.destroy_publisher(publisher)

    def _run(self) -> None:
        renderer: Renderer | None = None
        try:
            s = self._settings
            renderer = Renderer(
                self._model, s.width, s.height, shadows=s.shadows, antialias=s.antialias
            )
            names = tuple(s.topics)
            self._render(renderer, np.zeros(self._model.nq), names)  # compiles the shaders
            self._ready.set()
            while (item := self._slot.take()) is not None:
                stamp, positions = item
                began = time.perf_counter()
                seen = [n for n in names if self._publishers[n].get_subscription_count()]
                for name, pixels in self._render(renderer, positions, seen):
                    self._publishers[name].publish(rgb_image(stamp, name, pixels))
                for publisher, info in self._infos.values():
                    convert.set_time(info.header.stamp, stamp)
                    publisher.publish(info)
                self.seconds.add(time.perf_counter() - began)
                self.published += 1
        except BaseException as error:
            if self._node.context.ok():  # else Ctrl-C took the context away in the middle of it
                self.failure = error
        finally:
            self._ready.set()
            if renderer is not None:
                renderer.close()

    @staticmethod
    def _render(
        renderer: Renderer, positions: np.ndarray, names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        """Every camera before anything is sent: a set leaves as close together as it can."""
        return [(name, renderer.render(positions, name)) for name in names]


def camera_topics(robot: Robot) -> dict[str, str]:
    """Camera of the scene -> the topic that the robot's YAML gives to its role. Optional roles that
    the simulator lacks are left out; raises ValueError for others, and for compressed topics."""
    cameras = cells.kind(robot.name).cameras
    known = ", ".join(cameras)
    topics = {}
    for role, camera in robot.cameras.items():
        where = f"{robot.source}: cameras.{role}"
        if role not in cameras:
            if camera.optional:
                continue
            raise ValueError(f"{where}: the simulator has no such camera; it has {known}")
        if camera.topic.rsplit("/", 1)[-1] == "compressed":
            raise ValueError(
                f"{where}.topic: the simulator publishes sensor_msgs/Image, found {camera.topic}"
            )
        topics[role] = camera.topic
    return topics
