# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Raw subscriptions for ``phyai-ros record``: serialised bytes in, serialised bytes out."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.nodes import diagnostics, qos
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, Status
from phyai_ros.nodes.executor_thread import ExecutorThread
from phyai_ros.nodes.message_info import informed
from phyai_ros.nodes.message_types import message_class
from phyai_ros.nodes.recorded_qos import to_rosbags
from phyai_ros.robots.robot import Robot

OWN_TOPICS = {
    "/instruction": "std_msgs/msg/String",
    "/phyai/request": "phyai_ros/msg/InferenceRequest",
    "/phyai/chunk": "phyai_ros/msg/ActionChunk",
    "/phyai/handoff_state": "phyai_ros/msg/HandoffState",
    "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
    "/sim/episode": "std_msgs/msg/String",
    "/clock": "rosgraph_msgs/msg/Clock",
}
_AT_ONCE = {
    "/phyai/request": qos.request,
    "/phyai/chunk": qos.chunk,
    "/phyai/handoff_state": qos.handoff_state,
}
_OFTEN = 0.2
"""Seconds between two looks at the graph."""


class RecordNode:
    """Subscribes to each topic when its publisher appears, with a quality of service that the
    publisher offers, so that everything is heard and nobody is slowed down."""

    def __init__(self, robot: Robot, recorder: BagRecorder, more: Sequence[str]) -> None:
        self._recorder = recorder
        self._topics = dict.fromkeys(
            [
                *(camera.topic for camera in robot.cameras.values()),
                *robot.joint_state_topics,
                *(output.topic for output, _ in robot.outputs),
                *OWN_TOPICS,
                *more,
            ]
        )
        self._subscriptions: dict[str, Any] = {}
        self._refused: dict[str, str] = {}
        self._recorded: dict[str, tuple[str, list[Any]]] = {}
        self._context = rclpy.Context()
        rclpy.init(context=self._context, args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node(
            f"phyai_record_{os.getpid()}", context=self._context, enable_rosout=False
        )
        self._diagnostics = diagnostics.Publisher(self._node, [self._statuses])
        self._look()
        self._node.create_timer(_OFTEN, self._look)
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._node)
        self._spinning = ExecutorThread(executor, "phyai_record")

    def absent(self) -> list[str]:
        """Robot and policy topics that nobody has published."""
        optional = {"/clock", "/sim/episode", "/diagnostics"}
        return [t for t in self._topics if t not in self._subscriptions and t not in optional]

    def notices(self) -> list[str]:
        return list(self._refused.values())

    def write_into(self, recorder: BagRecorder) -> None:
        """Go on in another bag."""
        for name, (type_, kept) in list(self._recorded.items()):
            recorder.add_topic(name, type_, kept)
        self._recorder = recorder

    def say(self) -> None:
        """Publish the state of the recording now, not only with the next second."""
        self._spinning.executor.create_task(self._diagnostics.publish)

    def close(self) -> None:
        self._spinning.stop(timeout=2.0)
        self._node.destroy_node()
        self._context.try_shutdown()

    def _statuses(self) -> list[Status]:
        recorder = self._recorder
        lost = recorder.dropped.total()
        level = ERROR if recorder.failure else WARN if lost else OK
        text = f"{recorder.bytes / 1e6:.0f} MB" + (f", {lost} messages dropped" if lost else "")
        return [
            Status(
                "recording",
                level,
                recorder.failure or text,
                {"bytes": recorder.bytes, "dropped messages": lost},
            )
        ]

    def _look(self) -> None:
        for topic in self._topics:
            if topic in self._subscriptions:
                continue
            name = "/" + topic.lstrip("/")
            found = self._node.get_publishers_info_by_topic(name)
            if found:
                offered = [p.qos_profile for p in found]
                self._subscribe(name, topic, found[0].topic_type, offered)
            elif name in _AT_ONCE:
                # Only this package publishes it; the first message shall not be missed.
                self._subscribe(name, topic, OWN_TOPICS[name], [_AT_ONCE[name]()])

    def _subscribe(self, name: str, topic: str, type_: str, offered: Sequence[QoSProfile]) -> None:
        try:
            class_ = message_class(type_)
            kept = [to_rosbags(profile) for profile in offered]
        except ValueError as error:
            self._refused[topic] = f"{name}: not recorded: {error}"
            self._subscriptions[topic] = None
            return
        self._recorded[name] = type_, kept
        self._recorder.add_topic(name, type_, kept)

        def callback(data: bytes, info: Mapping[str, int]) -> None:
            stamp = info.get("received_timestamp", 0) or time.time_ns()
            self._recorder.offer(name, stamp, data)

        self._subscriptions[topic] = self._node.create_subscription(
            class_, name, informed(callback), _profile(offered), raw=True
        )


def _profile(offered: Sequence[QoSProfile]) -> QoSProfile:
    """What every publisher of a topic can serve; deep, as a recorder wants every message."""
    reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    lasting = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=200,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if lasting else DurabilityPolicy.VOLATILE,
    )
