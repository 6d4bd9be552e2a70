# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""One of two ways from camera topics to an observation, in a process of its own.

``phyai``: this package's own path: raw subscriptions, views of the pixels, the aligner; a thread
    waits for the next frame as the engine's thread does.
``classic``: messages deserialised, pixels copied, sets found by approximate time over cameras and
    joint states (queue 10, slop 20 ms), each message used once, as message_filters does it.

Ends when its standard input does. Prints one JSON line: latency from stamp to assembled set of
every set and to the thread that wants it, seconds, and the processor time used.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
from collections.abc import Sequence

import children
import numpy as np
import rclpy
from camera_source import CAMERAS, JOINTS
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import Image, JointState

from phyai_ros.control.align import CameraStream, NotReady, ObservationAligner
from phyai_ros.nodes import convert, qos
from phyai_ros.nodes.clock import RosSeconds
from phyai_ros.nodes.diagnostics import EdgeLog
from phyai_ros.nodes.executor_thread import ExecutorThread
from phyai_ros.nodes.memory import keep_freed_memory
from phyai_ros.nodes.sensors import Cameras, CameraTopic, FrameSource, Joints


class Phyai:
    def __init__(self, node, cameras: Sequence[str]) -> None:
        self.latencies: list[float] = []
        self.handed_over: list[float] = []
        self._now = RosSeconds(node.get_clock())
        aligner = ObservationAligner([CameraStream(c) for c in cameras], JOINTS)
        self._source = FrameSource(aligner, self._now)
        topics = [CameraTopic(c, f"camera/{c}/image_raw") for c in cameras]
        log = EdgeLog(node.get_logger())
        self._streams = (
            Cameras(node, topics, self._source, log),
            Joints(node, ["joint_states"], self._source, log),
        )
        self._stop = False
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        last = 0.0
        while not self._stop:
            try:
                frame = self._source.wait_frame(last + 1e-6, 1.0, lambda: self._stop)
            except NotReady:
                continue
            self.latencies.append(frame.wait)
            self.handed_over.append(self._now() - frame.oldest)
            last = frame.stamp

    def close(self) -> None:
        self._stop = True
        self._source.interrupt()
        self._thread.join()


class Classic:
    QUEUE, SLOP_NS = 10, 20_000_000

    def __init__(self, node, cameras: Sequence[str]) -> None:
        self.latencies: list[float] = []
        self.handed_over = self.latencies  # the callback that finds a set has it
        self._clock = node.get_clock()
        self._queues: dict[str, dict[int, object]] = {name: {} for name in (*cameras, "joints")}
        self._subscriptions = [
            node.create_subscription(
                Image,
                f"camera/{c}/image_raw",
                lambda message, c=c: self._image(c, message),
                qos.camera(),
            )
            for c in cameras
        ]
        self._subscriptions.append(
            node.create_subscription(JointState, "joint_states", self._joints, qos.joint_states())
        )

    def _image(self, camera: str, message: Image) -> None:
        shape = (message.height, message.width, 3)
        pixels = np.frombuffer(message.data, np.uint8).reshape(shape).copy()
        self._add(camera, message, pixels)

    def _joints(self, message: JointState) -> None:
        self._add("joints", message, dict(zip(message.name, message.position, strict=True)))

    def _add(self, name: str, message, sample: object) -> None:
        stamp = convert.stamp_to_ns(message.header.stamp)
        queue = self._queues[name]
        queue[stamp] = sample
        while len(queue) > self.QUEUE:
            del queue[min(queue)]
        near = []
        for other, candidates in self._queues.items():
            if other == name:
                continue
            stamps = [s for s in candidates if abs(s - stamp) <= self.SLOP_NS]
            if not stamps:
                return
            near.append([(other, s) for s in sorted(stamps, key=lambda s: abs(s - stamp))])
        for found in itertools.product(*near):
            stamps = [stamp, *(s for _, s in found)]
            if max(stamps) - min(stamps) < self.SLOP_NS:
                for other, used in (*found, (name, stamp)):
                    del self._queues[other][used]
                newest = max(s for (other, s) in (*found, (name, stamp)) if other != "joints")
                self.latencies.append((self._clock.now().nanoseconds - newest) / 1e9)
                return

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", choices=("phyai", "classic"))
    parser.add_argument("--cameras", nargs="+", choices=CAMERAS, default=CAMERAS)
    arguments = parser.parse_args()
    if arguments.path == "phyai":
        keep_freed_memory()  # as policy_node does
    children.init_ros()
    node = rclpy.create_node(f"camera_sink_{arguments.path}")
    sink = {"phyai": Phyai, "classic": Classic}[arguments.path](node, arguments.cameras)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    started = time.process_time()
    spinning = ExecutorThread(executor, "camera_sink")
    sys.stdin.readline()
    spinning.stop()
    cpu = time.process_time() - started
    sink.close()
    result = {"path": arguments.path, "latencies": sink.latencies, "cpu_s": cpu}
    result["handed_over"] = sink.handed_over
    print(json.dumps(result), flush=True)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
