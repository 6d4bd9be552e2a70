# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A lifecycle node of this package on an executor thread, and a test's own node beside it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from spinning import SpinningNode

from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.executor_thread import ExecutorThread

PATIENCE = 30.0
"""Seconds until a test gives up waiting for what must come."""
POSTURE = {
    "shoulder_pan_joint": 0.3,
    "shoulder_lift_joint": -1.2,
    "elbow_joint": 1.8,
    "wrist_1_joint": -2.2,
    "wrist_2_joint": -1.57,
    "wrist_3_joint": 0.1,
    "finger_joint": 0.02,
}
HEIGHT, WIDTH = 240, 320
_pictures = itertools.count(1)


class Rig:
    """make(context, parameters) gives the node; it is configured and active afterwards."""

    def __init__(self, make: Callable[..., Any], domain: int, **parameters: Any) -> None:
        self.context = Context()
        rclpy.init(context=self.context, args=[], domain_id=domain)
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        self.node = make(context=self.context, parameter_overrides=overrides)
        for transition in (self.node.trigger_configure, self.node.trigger_activate):
            assert transition() == TransitionCallbackReturn.SUCCESS, self.node.failure
        simulated = Parameter("use_sim_time", value=parameters.get("use_sim_time", False))
        self.test = SpinningNode("test", self.context, parameter_overrides=[simulated])
        self.diagnostics: dict[str, Any] = {}
        self.test.create_subscription(
            DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.diagnostics()
        )
        # A thread each: the test hears what is said while the node is within a transition.
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self.node)
        self._spinning = ExecutorThread(executor, "spin node")

    def on_test_thread(self, work: Callable[[], Any]) -> None:
        """Run what changes the test node's entities where its executor does not use them."""
        self.test.there(work)

    def transition(self, *names: str) -> None:
        """Lifecycle transitions, on the node's own thread as if asked for by service."""
        for name in names:
            task = self._spinning.executor.create_task(getattr(self.node, f"trigger_{name}"))
            self.until(task.done, name)
            assert task.result() == TransitionCallbackReturn.SUCCESS, self.node.failure

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.diagnostics[status.name.partition(": ")[2]] = status

    def says(self, part: str, text: str) -> bool:
        """Whether the newest diagnostics of a part contain a text, in message or values."""
        status = self.diagnostics.get(part)
        if status is None:
            return False
        words = [status.message, *(f"{v.key}={v.value}" for v in status.values)]
        return any(text in word for word in words)

    def value(self, part: str, key: str) -> float:
        """A number among the newest diagnostics of a part; 0 before there are any."""
        status = self.diagnostics.get(part)
        values = [] if status is None else status.values
        return next((float(v.value) for v in values if v.key == key), 0.0)

    def until(
        self, condition: Callable[[], Any], what: str, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Wait for a condition, calling ``meanwhile`` some thirty times a second."""
        end = time.monotonic() + PATIENCE
        while not condition():
            told = {name: s.message for name, s in self.diagnostics.items()}
            assert time.monotonic() < end, f"never came: {what}; diagnostics: {told}"
            if meanwhile is not None:
                meanwhile()
            time.sleep(0.03)

    def until_says(self, part: str, text: str, meanwhile: Callable[[], None] | None = None) -> None:
        self.until(lambda: self.says(part, text), f"{part}: {text!r}", meanwhile)

    def close(self) -> None:
        self._spinning.stop()
        self.node.teardown()
        self.node.destroy_node()
        self.test.close()
        self.context.try_shutdown()


class SimulatedTime:
    """Publishes /clock at 100 Hz; ``jump`` moves it."""

    def __init__(self, rig: Rig, start: float = 1000.0) -> None:
        self._offset = start - time.monotonic()
        self._stop = threading.Event()
        self._publisher = rig.test.create_publisher(Clock, "/clock", 10)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def jump(self, seconds: float) -> None:
        self._offset += seconds

    def _run(self) -> None:
        message = Clock()
        while not self._stop.wait(0.01):
            convert.set_time(message.clock, convert.seconds_to_ns(self.now()))
            self._publisher.publish(message)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def picture() -> np.ndarray:
    """An RGB image [HEIGHT, WIDTH, 3] that differs from every other."""
    return np.random.default_rng(next(_pictures)).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def image(rgb: np.ndarray, encoding: str = "rgb8", padding: int = 0) -> Image:
    """rgb as sensor_msgs/Image of an encoding, with ``padding`` bytes after each row."""
    channels = {
        "rgb8": rgb,
        "bgr8": rgb[..., ::-1],
        "rgba8": np.dstack([rgb, rgb[..., :1]]),
        "bgra8": np.dstack([rgb[..., ::-1], rgb[..., :1]]),
        "mono8": rgb[..., :1],
        "16UC1": rgb[..., :2],
    }[encoding]
    rows = np.pad(channels.reshape(len(rgb), -1), ((0, 0), (0, padding)))
    message = Image(height=rgb.shape[0], width=rgb.shape[1], encoding=encoding, step=rows.shape[1])
    message.data = rows.tobytes()
    return message


def jpeg(rgb: np.ndarray) -> CompressedImage:
    done, data = cv2.imencode(".jpg", rgb[..., ::-1])
    assert done
    return CompressedImage(format="rgb8; jpeg compressed bgr8", data=data.tobytes())


def joints(positions: Mapping[str, float] = POSTURE) -> JointState:
    return JointState(name=list(positions), position=[float(p) for p in positions.values()])
