# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""What ``phyai-ros record`` listens to, and what it says about itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rclpy.qos import QoSProfile

from phyai_ros.bags.recorder import BagRecorder
from phyai_ros.nodes import diagnostics, qos
from phyai_ros.nodes.diagnostics import ERROR, OK, WARN, Status
from phyai_ros.robots.robot import Robot
from phyai_ros.tools.record_ear import Ear

OWN_TOPICS = {
    "/instruction": "std_msgs/msg/String",
    "/phyai/request": "phyai_ros/msg/InferenceRequest",
    "/phyai/chunk": "phyai_ros/msg/ActionChunk",
    "/phyai/handoff_state": "phyai_ros/msg/HandoffState",
    "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
    "/sim/episode": "std_msgs/msg/String",
    "/clock": "rosgraph_msgs/msg/Clock",
}
CONTROL_TOPICS = ("/phyai/request", "/phyai/handoff_state")
"""Of OWN_TOPICS: what the control thread itself publishes, beside the commands."""
_AT_ONCE = {
    "/phyai/request": qos.request,
    "/phyai/chunk": qos.chunk,
    "/phyai/handoff_state": qos.handoff_state,
}
"""Only this package publishes them; the first message shall not be missed."""


class RecordNode:
    """Two participants in ROS. What the control thread publishes is heard by one of its own: a
    participant's port in shared memory has one lock for all who publish to it, and a camera's
    driver that waits for a core while it holds that lock makes the control thread wait with it, for
    several ticks on a loaded machine (docs/replay.md).

    refusal: why the receiving threads have no real-time priority, for people; or None."""

    def __init__(self, robot: Robot, recorder: BagRecorder, more: Sequence[str]) -> None:
        self._recorder = recorder
        self._recorded: dict[str, tuple[str, Sequence[Any]]] = {}
        commands = [output.topic for output, _ in robot.outputs]
        control = dict.fromkeys([*commands, *CONTROL_TOPICS])
        rest = dict.fromkeys(
            [
                *(camera.topic for camera in robot.cameras.values()),
                *robot.joint_state_topics,
                *OWN_TOPICS,
                *more,
            ]
        )
        expected: dict[str, tuple[str, QoSProfile]] = {
            name: (OWN_TOPICS[name], make()) for name, make in _AT_ONCE.items()
        }
        name = f"phyai_record_{os.getpid()}"
        hears = self._add_topic, self._offer
        self._ears = (
            Ear(name, [t for t in rest if t not in control], expected, *hears),
            Ear(f"{name}_control", list(control), expected, *hears),
        )
        self.refusal = next((ear.refusal for ear in self._ears if ear.refusal), None)
        self._diagnostics = diagnostics.Publisher(self._ears[0].node, [self._statuses])
        for ear in self._ears:
            ear.start()

    def absent(self) -> list[str]:
        """Robot and policy topics that nobody has published."""
        optional = {"/clock", "/sim/episode", "/diagnostics"}
        return [
            topic
            for ear in self._ears
            for topic in ear.topics
            if topic not in ear.subscriptions and topic not in optional
        ]

    def notices(self) -> list[str]:
        return [text for ear in self._ears for text in list(ear.refused.values())]

    def write_into(self, recorder: BagRecorder) -> None:
        """Go on in another bag."""
        for name, (type_, kept) in list(self._recorded.items()):
            recorder.add_topic(name, type_, kept)
        self._recorder = recorder

    def say(self) -> None:
        """Publish the state of the recording now, not only with the next second."""
        self._ears[0].call(self._diagnostics.publish)

    def close(self) -> None:
        for ear in self._ears:
            ear.close()

    def _add_topic(self, name: str, type_: str, kept: Sequence[Any]) -> None:
        self._recorded[name] = type_, kept
        self._recorder.add_topic(name, type_, kept)

    def _offer(self, name: str, time_ns: int, data: bytes) -> None:
        self._recorder.offer(name, time_ns, data)

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
